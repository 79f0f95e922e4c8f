//! What a secret is: names by their words, values by their shapes. All that is recorded, and all that quotes others, is matched here.

/// A part of a text that is a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FoundSecret {
    /// Where it begins.
    pub begin: usize,
    /// Where it ends.
    pub end: usize,
    /// What it is, for example `a token of GitHub`; `None` of what is a secret only by the name before it.
    pub kind: Option<&'static str>,
}

/// Words that are secrets wherever they stand: what they are, how many characters follow at least, a digit among them, and how they begin.
const SHAPES: &[(&str, usize, &str)] = &[
    ("a token (JWT)", 40, "eyJ"),
    ("a token of GitHub", 20, "ghp_ gho_ ghr_ ghs_ ghu_ github_pat_"),
    ("a token of GitLab", 16, "glpat- gldt- glrt-"),
    ("a token of Slack", 10, "xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xapp-"),
    ("a token of npm", 30, "npm_"),
    ("a key of Stripe", 16, "sk_live_ sk_test_ rk_live_ rk_test_"),
    ("an access key of AWS", 16, "AKIA ASIA"),
    ("a key of Google", 24, "AIza GOCSPX- ya29."),
    ("an API key", 20, "sk- gsk_ hf_ nvapi- pplx- r8_ tvly- xai-"),
    (
        "a token",
        24,
        "dapi dckr_pat_ dop_v1_ figd_ glsa_ hvs. lin_api_ pypi- rubygems_ sbp_ sb_secret_ shpat_ shpca_ sntrys_ whsec_",
    ),
    ("a token", 32, "ATATT3 NRAK- PMAK- SG. ntn_ secret_ AGE-SECRET-KEY-"),
];

/// Schemes of credentials, whose own names are shown.
const SCHEMES: [(&str, usize, &str); 2] = [("a password", 12, "Basic "), ("a token", 8, "Bearer ")];

/// Beginnings of URLs all the rest of which is a secret.
const SECRET_PATHS: [&str; 3] =
    ["hooks.slack.com/services/", "discord.com/api/webhooks/", "api.telegram.org/bot"];

/// Bytes at which a secret may begin, or what stands before one.
static MAY_BEGIN: [bool; 256] = {
    let (mut begins, bytes, mut index) = ([false; 256], b"-:=ABGNPSbdefghklnprstwxy", 0);
    while index < bytes.len() {
        begins[bytes[index] as usize] = true;
        index += 1;
    }
    begins
};

/// Words that make the value of a name a secret, also with another word behind them unless that is one of [`ABOUT`].
const STRONG: &str = "password passwd passwort passphrase passcode secret";
/// Words that do so at the end of a name.
const WEAK: &str = "credential authorization bearer cookie assertion jwt otp dsn mnemonic apikey";
/// Words in front of `key` and `keys`.
const KEYS: &str = "api private priv secret access encryption signing auth ssh master shared account storage license service role anon \
    webhook hmac aes crypto app application client consumer deploy subscription function functions server rsa pgp gpg admin user \
    integration session bot openai anthropic stripe aws azure google maps gemini groq mistral cohere tavily serper exa brave perplexity \
    deepseek openrouter replicate pinecone huggingface notion linear figma airtable github gitlab slack discord telegram twilio sendgrid \
    mailgun mailchimp deepl algolia datadog sentry posthog supabase firebase cloudflare vercel shopify weather weatherapi";
/// Words in front of `pass`, `pw`, `pwd` and `pat`.
const ACCOUNTS: &str = "db database smtp mail email imap ftp sftp ssh mysql pg postgres redis mongo admin root user my proxy sudo basic \
    login http sql amqp ldap keystore vault app wifi github gitlab bitbucket azure devops ado docker jira";
/// Words in front of `tokens`: others are counted.
const MANY_TOKENS: &str = "access refresh auth api bearer session bot oauth";
/// Words in front of `token` that make it a place in a list or a text.
const PLACES: &str = "progress page next continuation cancel cancellation sync skip start end eos bos pad unk sep mask cls stop resume \
    change design last first special prev previous paging pagination cursor delta max min color syntax current expected";
/// Words behind one of [`STRONG`] that tell something about it.
const ABOUT: &str = "arn at changed count created description disabled domain enabled endpoint error expired expires expiry field file \
    files format helper hint id ids in is label length level lifetime location manager max message method min mode name names option \
    path placeholder policy prompt provider ref reference required reset rotation rules scanning set size source status store strength \
    strategy supported title ttl type types updated url uri valid version";
/// Words at the end of a name that leave it what it is.
const NEUTRAL: &str = "value values prod production dev staging stage test live sandbox main primary secondary old new current default \
    raw plain text encoded base personal str";
/// Words at the begin of a name that ask or tell whether there is a secret.
const ASKING: &str = "has is can should require requires forgot show hide allow needs";
/// Parts of names that are written in one word.
const ENDS: &str = "password passwd passphrase secret token key credentials credential cookie authorization assertion string pass pwd pw";
/// Names of parameters of URLs, forms and connection strings that are secrets as well: a member `code` is that of an error.
const PARAMETERS: &str = "code code_verifier codeverifier sig auth pwd session sessionid session_id";

/// Last words of members that name what another member of the object has, and of those: `{"name": "API_KEY", "value": "…"}`.
pub(crate) const NAMES: &str = "name key header field variable parameter option id";
pub(crate) const VALUES: &str = "value values val";

fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known.eq_ignore_ascii_case(word))
}

/// Returns whether the value of a member, an argument, a variable or a header field with this name is a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let (mut before, mut rest) = ("", name);
    let (mut is_secret, mut is_strong) = (false, false);
    while let Some(word) = next_word(&mut rest) {
        if before.is_empty() && has(ASKING, word) {
            return false;
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        match ends_secret(before, word) {
            Some(strong) => (is_secret, is_strong) = (true, strong),
            None if has(NEUTRAL, word) => {}
            None => is_secret &= is_strong && !has(ABOUT, word),
        }
        before = word;
    }
    is_secret
}

/// Returns whether the last word of a name is in a list.
pub(crate) fn ends_with(mut name: &str, list: &str) -> bool {
    let mut last = "";
    while let Some(word) = next_word(&mut name) {
        last = word;
    }
    has(list, last)
}

/// Takes the next word of a name: they end at what is no letter, at digits, and where the case changes.
fn next_word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
    let bytes = text.as_bytes();
    let class = |at: usize| match bytes.get(at) {
        Some(b'0'..=b'9') => 0,
        Some(b'A'..=b'Z') => 1,
        Some(b'a'..=b'z' | 0x80..) => 2,
        _ => 3,
    };
    let is_end = |at: &usize| match (class(*at - 1), class(*at)) {
        // `APIKey`, but not `APIs`.
        (1, 1) => class(*at + 1) == 2 && bytes.get(*at + 1) != Some(&b's'),
        (1, 2) => false,
        (before, here) => before != here,
    };
    let end = (1..=text.len()).find(is_end).filter(|_| !text.is_empty())?;
    let (word, more) = text.split_at_checked(end)?;
    *rest = more;
    Some(word)
}

/// Returns whether a word behind another one makes a secret of its name, and a strong one.
fn ends_secret(before: &str, word: &str) -> Option<bool> {
    let is_plural = word.len() > 4 && word.ends_with(['s', 'S']) && !word.ends_with("ss");
    let one = if is_plural { word.get(..word.len() - 1)? } else { word };
    let ends = |end: &&str| {
        one.len() > end.len()
            && one.get(one.len() - end.len()..).is_some_and(|own| own.eq_ignore_ascii_case(end))
    };
    // A name in one word: `authtoken`.
    let (before, one) = match ENDS.split(' ').find(ends) {
        Some(end) => one.split_at_checked(one.len() - end.len())?,
        None => (before, one),
    };
    let follows = |list: &str| {
        let lower = before.to_ascii_lowercase();
        list.split(' ').any(|known| lower == known || known.len() > 2 && lower.ends_with(known))
    };
    let is = |known: &str| one.eq_ignore_ascii_case(known);
    match () {
        () if has(STRONG, one) => Some(!is_plural),
        () if has(WEAK, one) => Some(false),
        () if is("token") => {
            (if is_plural { follows(MANY_TOKENS) } else { !follows(PLACES) }).then_some(false)
        }
        () if is("key") => follows(KEYS).then_some(false),
        () if ["pass", "pw", "pwd", "pat"].into_iter().any(is) => follows(ACCOUNTS).then_some(false),
        () if is("string") => follows("connection").then_some(false),
        () if is("auth") => follows("basic proxy http").then_some(false),
        () if is("phrase") => follows("seed recovery").then_some(false),
        () => None,
    }
}

/// Finds the first secret in a text from a place on: one with a shape of its own, and the value behind the name of one.
#[must_use]
pub fn find_secret(text: &str, from: usize) -> Option<FoundSecret> {
    find_in(text.as_bytes(), from, 0, text.len(), &is_secret_name)
}

/// Finds the first secret in the part of a text between `begin` and `end`, from a place on.
pub(crate) fn find_in(
    text: &[u8],
    from: usize,
    begin: usize,
    end: usize,
    is_name: &dyn Fn(&str) -> bool,
) -> Option<FoundSecret> {
    let text = text.get(..end)?;
    // Most bytes begin nothing.
    let places = text.iter().enumerate().skip(from).filter(|(_, byte)| MAY_BEGIN[usize::from(**byte)]);
    { places }.find_map(|(at, byte)| match byte {
        b'=' => assigned(text, at, begin, is_name),
        b':' if text.get(at..).is_some_and(|rest| rest.starts_with(b"://")) => in_url(text, at + 3),
        b':' => labelled(text, at, begin, is_name),
        b'-' => private_key(text, at),
        _ => word(text, at, begin),
    })
}

/// A word that is a secret by how it begins.
fn word(text: &[u8], at: usize, begin: usize) -> Option<FoundSecret> {
    let may_begin =
        at == begin || !text.get(at - 1).is_some_and(u8::is_ascii_alphanumeric) || is_escape(text, at);
    let rest = text.get(at..).filter(|_| may_begin)?;
    let begins = |start: &&str| rest.starts_with(start.as_bytes());
    let is_scheme = |(.., name): &&(_, _, &str)| {
        rest.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name.as_bytes()))
    };
    let scheme = SCHEMES.iter().find(is_scheme);
    let of = |shape: &'static (&str, usize, &str)| Some((shape, shape.2.split(' ').find(begins)?));
    let ((kind, least, _), start) = match scheme {
        Some(scheme) => (scheme, scheme.2),
        None => SHAPES.iter().find_map(of)?,
    };
    let secret = rest.get(start.len()..)?;
    let secret = |most: usize| secret.iter().take(most).take_while(|byte| is_token_byte(**byte));
    let is_mixed = scheme.is_some() && secret(DECIDING).skip(1).any(u8::is_ascii_uppercase);
    let is_random = is_mixed
        || rest.starts_with(b"Bearer ")
        || secret(DECIDING).any(|byte| byte.is_ascii_digit() || *byte == b'=');
    if secret(DECIDING).count() < *least || !is_random {
        return None;
    }
    // The name of a scheme is shown.
    let begin = if scheme.is_some() { at + start.len() } else { at };
    Some(FoundSecret { begin, end: at + start.len() + secret(usize::MAX).count(), kind: Some(kind) })
}

/// The value of an assignment, a variable or a parameter, before whose `=` the name of a secret stands.
fn assigned(text: &[u8], at: usize, begin: usize, is_name: &dyn Fn(&str) -> bool) -> Option<FoundSecret> {
    let (start, name) = name_before(text, at, begin)?;
    if is_name(name) {
        return value_at(text, at + 1, usize::MAX).map(|(found, ..)| found);
    }
    let is_key = name.eq_ignore_ascii_case("key");
    if !is_key && !has(PARAMETERS, name) && !name.to_ascii_lowercase().ends_with("signature") {
        return None;
    }
    let (found, value, _) = value_at(text, at + 1, DECIDING)?;
    let is_parameter = match start.checked_sub(1).and_then(|before| text.get(before)) {
        Some(b'?' | b'&' | b';') => true,
        _ => start == begin && text.get(found.end) == Some(&b'&'),
    };
    let is_secret = is_parameter && (!is_key || is_random(value));
    is_secret.then(|| value_at(text, at + 1, usize::MAX)).flatten().map(|(found, ..)| found)
}

/// The value behind `password: `. It is one word that ends the line, is quoted or random: otherwise it is a sentence.
fn labelled(text: &[u8], at: usize, begin: usize, is_name: &dyn Fn(&str) -> bool) -> Option<FoundSecret> {
    let (start, name) = name_before(text, at, begin)?;
    // `api key: …`
    let two = || {
        let before = start.checked_sub(1).filter(|before| text.get(*before) == Some(&b' '))?;
        core::str::from_utf8(text.get(name_before(text, before, begin)?.0..at)?).ok()
    };
    if !is_name(name) && !two().is_some_and(is_name) {
        return None;
    }
    let space = text.get(at + 1..)?.iter().take_while(|byte| **byte == b' ').count();
    let (found, value, is_quoted) = value_at(text, at + 1 + space, DECIDING)?;
    let is_last = matches!(text.get(found.end), None | Some(b'\n' | b'\r' | b'\\'));
    let is_secret = is_last || is_quoted || is_random(value);
    is_secret.then(|| value_at(text, at + 1 + space, usize::MAX)).flatten().map(|(found, ..)| found)
}

/// Bytes of a value by which it is decided whether it is a secret: a text may have a beginning of one at each byte.
const DECIDING: usize = 256;

/// Returns the value that begins here, up to a length, its text, and whether it is in quotes.
fn value_at(text: &[u8], at: usize, most: usize) -> Option<(FoundSecret, &[u8], bool)> {
    let quote = text.get(at).filter(|byte| matches!(byte, b'"' | b'\''));
    let begin = at + usize::from(quote.is_some());
    let is_end = |byte: &u8| match quote {
        // It never goes beyond a string of JSON.
        Some(quote) => byte == quote || matches!(byte, b'"' | b'\n'),
        None => byte.is_ascii_whitespace() || b"&\"'`,;<>#\\".contains(byte),
    };
    let rest = text.get(begin..)?;
    let rest = rest.get(..most).unwrap_or(rest);
    let value = rest.split(is_end).next().filter(|value| !value.is_empty())?;
    let found = FoundSecret { begin, end: begin + value.len(), kind: None };
    Some((found, value, quote.is_some() && value.len() < rest.len()))
}

/// Returns whether a string of a message is a secret by the text before it, which has no member's name there.
pub(crate) fn is_quoted_secret(before: &[u8], value: &[u8], is_name: &dyn Fn(&str) -> bool) -> bool {
    let before = before.trim_ascii_end();
    let name = before.strip_suffix(b"=").or_else(|| before.strip_suffix(b":")).unwrap_or(before);
    let is_word = name.len() < before.len() && !value.iter().any(u8::is_ascii_whitespace);
    (is_word || is_random(value))
        && name_before(before, name.trim_ascii_end().len(), 0).is_some_and(|(_, name)| is_name(name))
}

/// The password in a URL whose authority begins here, or its path.
fn in_url(text: &[u8], at: usize) -> Option<FoundSecret> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`<>\\".contains(byte);
    let rest = text.get(at..)?;
    if let Some(start) = SECRET_PATHS.iter().find(|start| rest.starts_with(start.as_bytes())) {
        let url = rest.split(is_end).next()?;
        let found =
            FoundSecret { begin: at + start.len(), end: at + url.len(), kind: Some("a URL with a token") };
        return (url.len() > start.len()).then_some(found);
    }
    let authority = rest.split(|byte| is_end(byte) || b"/?#".contains(byte)).next()?;
    let user = authority.get(..authority.iter().rposition(|byte| *byte == b'@')?)?;
    let password = user.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1);
    let is_secret = password < user.len() && (password > 0 || is_random(user));
    is_secret.then_some(FoundSecret {
        begin: at + password,
        end: at + user.len(),
        kind: Some("a URL with a password"),
    })
}

/// A private key in PEM, without its first line.
fn private_key(text: &[u8], at: usize) -> Option<FoundSecret> {
    const LABEL: &[u8] = b"PRIVATE KEY";
    let rest = text.get(at..)?.strip_prefix(b"-----BEGIN ")?;
    let label = rest.windows(LABEL.len()).take(24).position(|part| part == LABEL)?;
    let line = rest.get(label + LABEL.len()..)?;
    let line = line.strip_prefix(b" BLOCK").unwrap_or(line).strip_prefix(b"-----")?;
    let begin = text.len() - line.len();
    let ends = |at: &usize| {
        line.get(*at) == Some(&b'"') || line.get(*at..).is_some_and(|l| l.starts_with(b"-----END "))
    };
    let end = (0..line.len()).find(ends).map_or(text.len(), |end| begin + end);
    (begin < end).then_some(FoundSecret { begin, end, kind: Some("a private key") })
}

/// Returns the name that ends before a place, and where it begins.
fn name_before(text: &[u8], at: usize, begin: usize) -> Option<(usize, &str)> {
    // In Python a name of a dictionary is in such quotes.
    let at = at - usize::from(at > begin && text.get(at - 1) == Some(&b'\''));
    let before = text.get(begin..at)?;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let length = before.iter().rev().take_while(|byte| is_part(byte)).count();
    let start = at - length;
    // The letter of an escape is none of the name.
    let start = start + usize::from(start > begin && text.get(start - 1) == Some(&b'\\'));
    let name = core::str::from_utf8(text.get(start..at)?).ok().filter(|name| !name.is_empty())?;
    Some((start, name))
}

/// Returns whether a text is long, and has letters and digits.
pub(crate) fn is_random(text: &[u8]) -> bool {
    text.len() >= 16
        && text.iter().all(|byte| is_token_byte(*byte) || *byte == b'%')
        && text.iter().any(u8::is_ascii_digit)
        && text.iter().any(u8::is_ascii_alphabetic)
}

/// Returns whether what stands before `at` is an escape of JSON: `\\n`, `\\u000a`.
fn is_escape(text: &[u8], at: usize) -> bool {
    let before =
        |length: usize| at.checked_sub(length).and_then(|begin| text.get(begin..at)).unwrap_or_default();
    matches!(before(2), [b'\\', b'b' | b'f' | b'n' | b'r' | b't'])
        || matches!(before(6), [b'\\', b'u', digits @ ..] if digits.iter().all(u8::is_ascii_hexdigit))
}

const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+' | b'/' | b'=' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_begin_as_secrets_are_looked_at() {
        let starts = SHAPES.iter().chain(&SCHEMES).flat_map(|(.., starts)| starts.split(' '));
        for start in starts.filter(|start| !start.is_empty()) {
            assert!(MAY_BEGIN[usize::from(start.as_bytes()[0])], "{start}");
        }
    }

    #[test]
    fn names_are_told_by_their_words() {
        for name in [
            "MAILCHIMP_KEY",
            "rapidApiKey",
            "SERPAPI_KEY",
            "BITBUCKET_APP_PASSWORD",
            "AZURE_DEVOPS_PAT",
            "sasToken",
            "cookieSecret",
            "NEXTAUTH_SECRET",
            "secretAccessKey",
            "accessKeySecret",
            "GH_TOKEN",
            "x-amz-security-token",
            "SENTRY_DSN",
            "rootpw",
            "admin_pw",
            "privkey",
            "basicAuth",
            "seed_phrase",
            "snowflakePrivateKeyPassphrase",
            "wp_application_password",
            "Passwörter-Secret",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "",
            "-",
            "key",
            "pwd",
            "KEYS",
            "donkeys",
            "tokens",
            "APIs",
            "secretsManager",
            "passwordless",
            "auth",
            "aPIN",
            "é",
            "hasToken",
            "password_reset_url",
            "accessKeyId",
            "publicKeyToken_count",
            "bypass",
            "numTokens",
            "cookiebot",
            "stringify",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
