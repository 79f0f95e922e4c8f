//! Cities by country: nested arguments, structured results, and a template with dependent completions.

use mcp_proto::RpcError;
use mcp_proto::model::{
    Annotations, CallToolResult, Content, Icon, Prompt, PromptArgument, PromptMessage, PromptReference,
    ResourceLink, ResourceTemplate, ResourceTemplateReference, Role,
};
use mcp_proto::router::schema::{Typed, schemars};
use mcp_proto::router::{CompletionTarget, suggest};
use mcp_runtime::server::Cx;
use mcp_runtime::server::router::RegisterFunctions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::demonstration::read_only;

#[derive(Clone, Serialize, JsonSchema)]
struct City {
    name: &'static str,
    country: &'static str,
    /// Approximate number of inhabitants.
    population: u32,
}

const fn city(country: &'static str, name: &'static str, population: u32) -> City {
    City { name, country, population }
}

static CITIES: [City; 12] = [
    city("france", "brest", 139_000),
    city("france", "lyon", 522_000),
    city("france", "paris", 2_103_000),
    city("japan", "kyoto", 1_437_000),
    city("japan", "osaka", 2_770_000),
    city("japan", "tokyo", 14_180_000),
    city("norway", "bergen", 292_000),
    city("norway", "oslo", 724_000),
    city("norway", "tromso", 78_000),
    city("portugal", "coimbra", 144_000),
    city("portugal", "lisbon", 567_000),
    city("portugal", "porto", 249_000),
];

impl City {
    fn find(country: &str, name: &str) -> Option<&'static Self> {
        CITIES.iter().find(|city| city.country == country && city.name == name)
    }

    fn uri(&self) -> String {
        format!("{}{}/{}", ATLAS_URI, self.country, self.name)
    }
}

const ATLAS_URI: &str = "atlas://";
/// A dot, as an SVG image.
const ICON: &str = "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20viewBox='0%200%208%208'%3E%3Ccircle%20\
                    cx='4'%20cy='4'%20r='3.5'%20fill='%23c81e1e'/%3E%3C/svg%3E";
const TEMPLATE: &str = "atlas://{country}/{city}";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindCities {
    /// Cities to include; all of them by default.
    #[serde(default)]
    filter: CityFilter,
    /// Order of the result.
    #[serde(default)]
    sort: CitySort,
    /// Maximum number of cities.
    #[serde(default = "FindCities::default_limit")]
    #[schemars(range(min = 1, max = 100))]
    limit: u8,
}

impl FindCities {
    const fn default_limit() -> u8 {
        100
    }
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct CityFilter {
    /// Only cities in these countries; any country if empty.
    countries: Vec<String>,
    /// Only cities with at least this number of inhabitants.
    min_population: u32,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CitySort {
    #[default]
    Name,
    Population,
}

#[derive(Serialize, JsonSchema)]
struct FoundCities {
    cities: Vec<City>,
    /// Number of matching cities beyond the limit.
    more: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CityVariables {
    /// Country in lower case: norway.
    country: String,
    /// City in lower case: oslo.
    city: String,
}

#[derive(Deserialize)]
struct JourneyArguments {
    country: String,
    city: Option<String>,
    days: Option<u8>,
}

pub(super) fn register(router: &mut impl RegisterFunctions) {
    router
        .tool("find_cities", |_, asked: FindCities| Typed(asked.answer()))
        .title("Find cities")
        .description("Cities of the atlas, as a structured result")
        .annotations(read_only())
        .icons([Icon::new(ICON).mime_type("image/svg+xml").sizes(["any".into()])]);

    let city_link = |_: &mut Cx<'_>, CityVariables { country, city }: CityVariables| {
        let found = City::find(&country, &city).ok_or("there is no such city in the atlas")?;
        let link = ResourceLink::new(found.uri(), found.name)
            .description(format!("{} in {}", found.name, found.country))
            .mime_type("text/plain")
            .annotations(Box::new(Annotations::new().audience([Role::User]).priority(0.8)));
        Ok::<_, &str>(CallToolResult::content(vec![Content::text("Read this:"), link.into()]))
    };
    router
        .tool("city_link", city_link)
        .title("Link to a city")
        .description("Returns a link to the resource of a city")
        .annotations(read_only());

    let family = ResourceTemplate::new(TEMPLATE, "city")
        .title("Cities")
        .description("Facts about a city; both variables can be completed")
        .mime_type("text/plain");
    router.resource_template(family, move |_, read| {
        let CityVariables { country, city } = read.parse()?;
        let found = City::find(&country, &city).ok_or_else(|| RpcError::resource_not_found(&read.uri))?;
        Ok::<_, RpcError>(format!(
            "{} in {} has {} inhabitants.",
            found.name, found.country, found.population
        ))
    });
    let template = || ResourceTemplateReference::new(TEMPLATE);
    router.completion(template(), "country", move |_, asked| complete_country(asked));
    router.completion(template(), "city", move |_, asked| complete_city(asked));

    let prompt = Prompt::new("travel_plan")
        .title("Plan a journey")
        .description("Asks for a plan of a journey")
        .arguments([
            PromptArgument::new("country").description("Where to").required(true),
            PromptArgument::new("city").description("To one city only"),
            PromptArgument::new("days").description("How long, in days: a number; 3 if left out"),
        ]);
    router.prompt(prompt, move |_, JourneyArguments { country, city, days }: JourneyArguments| {
        let days = days.unwrap_or(3);
        let place = city.map_or_else(|| country.clone(), |city| format!("{city}, {country}"));
        vec![
            PromptMessage::user(
                format!("I want to spend {days} days in {place}. What should I see?").as_str(),
            )
            .into_owned(),
            PromptMessage::assistant("Let me think about what is there, and what lies on the way."),
        ]
    });
    let prompt = || PromptReference::new("travel_plan");
    router.completion(prompt(), "country", move |_, asked| complete_country(asked));
    router.completion(prompt(), "city", move |_, asked| complete_city(asked));
}

impl FindCities {
    fn answer(&self) -> FoundCities {
        let CityFilter { countries, min_population } = &self.filter;
        let fits = |city: &&City| {
            city.population >= *min_population
                && (countries.is_empty() || countries.iter().any(|country| country == city.country))
        };
        let mut cities: Vec<City> = CITIES.iter().filter(fits).cloned().collect();
        match self.sort {
            CitySort::Name => cities.sort_by_key(|city| city.name),
            CitySort::Population => cities.sort_by_key(|city| core::cmp::Reverse(city.population)),
        }
        let more = cities.len().saturating_sub(self.limit.into());
        cities.truncate(self.limit.into());
        FoundCities { cities, more }
    }
}

fn complete_country(asked: &CompletionTarget<'_>) -> Vec<String> {
    let mut all: Vec<_> = CITIES.iter().map(|city| city.country).collect();
    all.dedup();
    suggest(all, asked.value())
}

/// Completes a city. If the country is already filled in, only its cities are suggested.
fn complete_city(asked: &CompletionTarget<'_>) -> Vec<String> {
    let country = asked.other_argument("country");
    let there = CITIES.iter().filter(|city| country.is_none_or(|country| country == city.country));
    suggest(there.map(|city| city.name), asked.value())
}
