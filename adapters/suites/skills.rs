//! Suite: skills, from a server with a folder to files that a client verifies.
//!
//! `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_extensions::skills::{Skill, SkillError, SkillFolder, SkillResource, SkillResources, SkillUri};
use mcp_proto::client::{Config, Paginator};
use mcp_proto::model::{Resource, ResourceContents};
use mcp_proto::{Capability, Era, RawJson, UseError};
use serde_json::{Value, json};

use super::scripted_server::{ScriptedReply, connect_scripted};
use crate::adapter::{Client, Error, Router, handler, serve};
use crate::support::with_timeout;

const TEXT: &str =
    "---\nname: tides\ndescription: Reads tide tables\nlevels: [1, 2.50]\n---\nSee `references/ports.md`.\n";
const URI: &str = "skill://harbour/tides/SKILL.md";

fn router() -> Router {
    let mut router = Router::new("harbour", "1.0");
    let tides = SkillFolder::new("skill://harbour/tides")
        .file("SKILL.md", TEXT)
        .file("references/ports.md", "Brest\r\n\u{2028}Cork\0\n")
        .file("assets/chart.bin", [0xff, 0, 0xfe]);
    router.skill(tides);
    let live = Resource::new("skill://live/SKILL.md", "live").mime_type("text/markdown");
    router.resource(live, handler!(|_, _| "---\nname: live\ndescription: d\n---\nnow\n"));
    let front_matter = RawJson::new(r#"{"description":"d","name":"live"}"#).unwrap();
    let entry = Skill::new("skill://live/SKILL.md", front_matter, SkillResources::Dynamic);
    router.core().skill(&entry).unwrap();
    router
}

// covers: SKILL-002, SKILL-010, SKILL-011, SKILL-024, SKILL-026, SKILL-027, SKILL-029, SKILL-030, SKILL-036, SKILL-040
#[test]
fn client_lists_gets_and_reads_skills_of_a_router() {
    with_timeout(|| {
        let (client, server) = serve(router, Client::options(Config::new("me", "1.0")));
        let skills = client.list_skills().unwrap();
        assert_eq!(skills.iter().map(|skill| skill.name().unwrap()).collect::<Vec<_>>(), ["tides", "live"]);
        let tides = client.get_skill(URI).unwrap();
        assert_eq!(tides, skills[0]);
        assert_eq!(tides.frontmatter.member("levels").unwrap().as_str(), "[1,2.50]");
        let uri = SkillUri::parse(&tides.uri).unwrap();
        for (path, content, media_type) in [
            ("SKILL.md", TEXT.as_bytes(), "text/markdown"),
            ("references/ports.md", "Brest\r\n\u{2028}Cork\0\n".as_bytes(), "text/markdown"),
            ("assets/chart.bin", &[0xff, 0, 0xfe], "application/octet-stream"),
        ] {
            let read = client.read_skill_file(&tides, &uri.resolve(path).unwrap()).unwrap();
            assert_eq!((&*read.bytes, read.media_type.as_deref()), (content, Some(media_type)), "{path}");
            assert!(read.is_verified);
        }
        // A text with a NUL is not sent as text.
        let ports = client.read_resource(&uri.resolve("references/ports.md").unwrap()).unwrap();
        assert!(matches!(ports.contents[0], ResourceContents::Blob(_)), "{ports:?}");
        let live = client.read_skill_file(&skills[1], "skill://live/SKILL.md").unwrap();
        assert!(!live.is_verified && live.as_text().unwrap().ends_with("now\n"));

        let listed = client.list_resources().unwrap();
        let skill_file = listed.iter().find(|resource| resource.uri == URI).unwrap();
        assert_eq!(skill_file.name, "tides");
        assert_eq!(skill_file.description.as_deref(), Some("Reads tide tables"));
        assert_eq!(skill_file.mime_type.as_deref(), Some("text/markdown"));

        let root = client.read_directory(uri.root()).unwrap();
        let names: Vec<_> = root.iter().map(|child| (&*child.name, child.is_directory())).collect();
        assert_eq!(names, [("tides", false), ("assets", true), ("references", true)]);
        for unknown in ["skill://none/SKILL.md", "skill://harbour/tides"] {
            assert!(matches!(client.get_skill(unknown), Err(Error::Call(_))), "{unknown}");
        }
        assert!(matches!(client.read_directory(URI), Err(Error::Call(_))));
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

// covers: SKILL-003, SKILL-004
#[test]
fn skills_are_requested_only_of_servers_that_have_them() {
    with_timeout(|| {
        let build = || {
            let mut router = Router::new("plain", "1.0");
            router.resource(Resource::new("x://a/b", "b"), handler!(|_, _| "b"));
            router
        };
        let (client, server) = serve(build, Client::options(Config::new("me", "1.0")));
        for result in [client.list_skills().map(drop), client.get_skill(URI).map(drop)] {
            let missing = UseError::MissingPeerCapability(Capability::Skills);
            assert!(matches!(result, Err(Error::Use(error)) if error == missing));
        }
        let missing = UseError::MissingPeerCapability(Capability::DirectoryRead);
        assert!(matches!(client.read_directory("x://a"), Err(Error::Use(error)) if error == missing));
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

#[test]
fn folder_with_a_mistake_is_reported_with_its_path() {
    let mut router = Router::new("harbour", "1.0");
    router
        .skills_from("/nonexistent/skills")
        .skill(SkillFolder::new("skill://tides").file("SKILL.md", "# no"));
    let errors = router.check().unwrap_err().to_string();
    assert!(errors.contains("/nonexistent/skills") && errors.contains("skill://tides"), "{errors}");
}

/// A server with one skill, of which one thing is changed.
fn hostile(change: impl FnOnce(&mut Value, &mut Value)) -> (Value, Value) {
    let file =
        |uri: &str, content: &str| serde_json::to_value(SkillResource::of(uri, content.as_bytes())).unwrap();
    let mut entry = json!({
        "uri": URI,
        "frontmatter": {"levels": [1, 2.5], "name": "tides", "description": "Reads tide tables"},
        "resources": [file(URI, TEXT), file("skill://harbour/tides/a.md", "a")],
    });
    let mut contents = json!([{"uri": URI, "text": TEXT}]);
    change(&mut entry, &mut contents);
    (entry, contents)
}

// covers: SKILL-017, SKILL-018, SKILL-030, SKILL-031, SKILL-032, SKILL-033
#[test]
fn content_that_differs_from_its_entry_is_not_returned() {
    with_timeout(|| {
        let reads = |part: &'static str, change: fn(&mut Value, &mut Value)| (part, change);
        let cases = [
            reads("", |_, _| {}),
            reads("expected 1 bytes, found", |entry, _| entry["resources"][0]["size"] = json!(1)),
            reads("expected the digest sha256:", |_, contents| {
                contents[0]["text"] = TEXT.replace("See", "see").into();
            }),
            reads("expected `description` in the front matter to be", |entry, _| {
                entry["frontmatter"]["description"] = "something else".into();
            }),
            reads("expected `x` in the front matter to be 1, found nothing", |entry, _| {
                entry["frontmatter"]["x"] = 1.into();
            }),
            reads("Base64", |_, contents| contents[0] = json!({"uri": URI, "blob": "%%"})),
            reads("one content", |_, contents| *contents = json!([])),
            reads("one content", |_, contents| *contents = json!([contents[0], contents[0]])),
        ];
        for (part, change) in cases {
            let (entry, contents) = hostile(change);
            let requests = Arc::new(Mutex::new(Vec::new()));
            let seen = requests.clone();
            let (client, serving) = connect_scripted(
                Era::Modern,
                |o| o,
                move |method, _| {
                    seen.lock().unwrap().push(method.to_owned());
                    ScriptedReply::from(match method {
                        "skills/list" => json!({"skills": [entry], "ttlMs": 0, "cacheScope": "private"}),
                        _ => json!({"contents": contents, "ttlMs": 60_000, "cacheScope": "private"}),
                    })
                },
            );
            let skills = client.list_skills().unwrap();
            assert_eq!(*requests.lock().unwrap(), ["skills/list"], "no file is read ahead");
            match client.read_skill_file(&skills[0], URI) {
                Ok(read) => assert!(part.is_empty() && read.as_text() == Some(TEXT)),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!part.is_empty() && text.contains(part), "{part}: {text}");
                }
            }
            // A file that the entry does not list is not requested at all.
            let before = requests.lock().unwrap().len();
            for unlisted in ["skill://harbour/tides/none.md", "skill://other/SKILL.md"] {
                let refused = client.read_skill_file(&skills[0], unlisted);
                let Err(Error::Skill(error)) = refused else { panic!("{unlisted}: {refused:?}") };
                assert!(matches!(*error, SkillError::File { .. }) && error.to_string().contains(unlisted));
            }
            let mut large = skills[0].clone();
            if let SkillResources::Files(files) = &mut large.resources {
                files[1].size = 1 << 40;
            }
            let refused = client.read_skill_file(&large, URI);
            assert!(
                matches!(refused, Err(Error::Skill(error)) if matches!(*error, SkillError::TooLarge { .. }))
            );
            assert_eq!(requests.lock().unwrap().len(), before);
            client.close().unwrap();
            serving.join().unwrap();
        }
    });
}

// covers: SKILL-017, SKILL-019, SKILL-021, SKILL-044, PAGE-012
#[test]
fn endless_lists_of_skills_are_bounded() {
    with_timeout(|| {
        let mut page = 0;
        let (client, serving) = connect_scripted(
            Era::Modern,
            |o| o,
            move |method, _| {
                page += 1;
                ScriptedReply::from(match method {
                    "skills/list" => {
                        let invalid =
                            json!({"uri": "skill://x/SKILL.md", "frontmatter": {}, "resources": null});
                        let (entry, _) = hostile(|_, _| {});
                        json!({"skills": [entry, invalid], "nextCursor": format!("{page}")})
                    }
                    "skills/get" => {
                        json!({"skill": hostile(|entry, _| entry["uri"] = "skill://x/SKILL.md".into()).0})
                    }
                    _ => {
                        json!({"resources": [{"uri": "x://a", "name": "a"}], "nextCursor": format!("{page}")})
                    }
                })
            },
        );
        let skills = client.list_skills().unwrap();
        assert_eq!(skills.len(), Paginator::MAX_PAGES, "an entry that cannot be used costs itself alone");
        assert_eq!(client.read_directory("x://d").unwrap().len(), Paginator::MAX_PAGES);
        assert!(matches!(client.get_skill(URI), Err(Error::UnexpectedResult(_))), "of another skill");
        client.close().unwrap();
        serving.join().unwrap();
    });
}
