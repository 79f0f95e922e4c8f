//! The rewriting: finds each mutant in the syntax tree, and puts text around the source of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A mutant as `cargo-mutants` lists it.
#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct Mutant {
    pub(crate) id: u32,
    pub(crate) genre: String,
    pub(crate) replacement: String,
    pub(crate) span: LineSpan,
    /// True if the usual way of writing an operator did not compile here.
    #[serde(default)]
    pub(crate) doubled: bool,
}

/// A place in a file: lines and columns count from one, columns in characters.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub(crate) struct LineSpan {
    pub(crate) start: LineColumn,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub(crate) struct LineColumn {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    pub(crate) regions: Vec<Region>,
    /// Each `match`, with those of its arms that can be left out: without them it may not be exhaustive.
    pub(crate) matches: Vec<Region>,
    /// Mutants without a switch, and why.
    pub(crate) not_tried: BTreeMap<u32, &'static str>,
}

/// Bytes of the text to blame for an error of the compiler that points into them.
#[derive(Debug, PartialEq, serde::Serialize)]
pub(crate) struct Region {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) ids: Vec<u32>,
    /// Whether the text exists for one mutant alone, so that an error is its own.
    pub(crate) alone: bool,
}

/// Writes all mutants into a source. A switch is a call of `crate::mutant` with the number of the mutant.
///
/// Functions that are `const` cannot look at a switch: they lose this keyword unless they are in `constant`.
pub(crate) fn rewrite(
    source: &str,
    mutants: &[Mutant],
    constant: &BTreeSet<String>,
) -> Result<Rewritten, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let lines: Vec<usize> =
        std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let offset = |place: LineColumn| {
        let line = lines.get(place.line - 1).copied().unwrap_or(source.len());
        source[line..].char_indices().nth(place.column - 1).map_or(source.len(), |(at, _)| line + at)
    };
    let mut wanted: BTreeMap<(Genre, usize), Vec<Mutant>> = BTreeMap::new();
    let mut not_tried = BTreeMap::new();
    for mutant in mutants {
        match Genre::of(&mutant.genre) {
            Some(genre) => {
                wanted.entry((genre, offset(mutant.span.start))).or_default().push(mutant.clone());
            }
            None => {
                not_tried.insert(mutant.id, "unknown kind");
            }
        }
    }
    let mut finder = Finder { wanted, constant, sites: Vec::new(), not_tried, in_constant: None };
    finder.visit_file(&file);
    let Finder { wanted, mut sites, mut not_tried, .. } = finder;
    not_tried.extend(wanted.into_values().flatten().map(|mutant| (mutant.id, "not found")));
    // What encloses comes before what is inside.
    sites.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end), site.change.depth()));
    let mut writer = Writer { source, text: String::new(), regions: Vec::new(), matches: Vec::new() };
    writer.write(0..source.len(), &sites);
    Ok(Rewritten { text: writer.text, regions: writer.regions, matches: writer.matches, not_tried })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Genre {
    Body,
    Binary,
    Unary,
    Arm,
    Guard,
    Field,
}

impl Genre {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "FnValue" => Self::Body,
            "BinaryOperator" => Self::Binary,
            "UnaryOperator" => Self::Unary,
            "MatchArm" => Self::Arm,
            "MatchArmGuard" => Self::Guard,
            "StructField" => Self::Field,
            _ => return None,
        })
    }
}

/// Source that is replaced, and how.
struct Site {
    range: Range<usize>,
    mutants: Vec<Mutant>,
    change: Change,
}

enum Change {
    /// Mutants return at the beginning of the body.
    Body,
    /// The keyword `const`, which is left out.
    Const,
    Binary {
        left: Range<usize>,
        operator: String,
        right: Range<usize>,
        kind: OperatorKind,
    },
    Unary {
        operator: String,
        operand: Range<usize>,
    },
    /// A `match` with arms that can be left out.
    Match {
        arms: Vec<u32>,
    },
    /// The guard of an arm, if it has one; the mutants are those of the guard and of the arm.
    Guard {
        guard: Option<Range<usize>>,
    },
    /// A field of a struct, which has the value of the base instead.
    Field {
        name: String,
        value: Range<usize>,
        shorthand: bool,
        base: Range<usize>,
        path: Range<usize>,
        is_place: bool,
    },
}

impl Change {
    /// Orders changes of equal ranges.
    fn depth(&self) -> u8 {
        match self {
            Self::Body => 0,
            Self::Const | Self::Match { .. } => 1,
            Self::Field { .. } | Self::Guard { .. } => 2,
            Self::Binary { .. } | Self::Unary { .. } => 3,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum OperatorKind {
    Lazy,
    Comparison,
    Value,
    Assignment,
}

/// Finds the sites of mutants.
struct Finder<'a> {
    wanted: BTreeMap<(Genre, usize), Vec<Mutant>>,
    constant: &'a BTreeSet<String>,
    sites: Vec<Site>,
    not_tried: BTreeMap<u32, &'static str>,
    /// Why no switch is possible here.
    in_constant: Option<&'static str>,
}

fn range(of: &impl Spanned) -> Range<usize> {
    of.span().byte_range()
}

impl Finder<'_> {
    /// Takes the mutants of a place, unless there are none, or no switch is possible there.
    fn take(&mut self, genre: Genre, start: usize) -> Option<Vec<Mutant>> {
        let mutants = self.wanted.remove(&(genre, start))?;
        match self.in_constant {
            Some(reason) => {
                self.not_tried.extend(mutants.iter().map(|mutant| (mutant.id, reason)));
                None
            }
            None => Some(mutants),
        }
    }

    fn within(&mut self, reason: Option<&'static str>, visit: impl FnOnce(&mut Self)) {
        let before = self.in_constant;
        self.in_constant = reason.or(before);
        visit(self);
        self.in_constant = before;
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block, visit: impl FnOnce(&mut Self)) {
        let mut reason = None;
        if let Some(keyword) = &signature.constness {
            if self.constant.contains(&signature.ident.to_string()) {
                reason = Some("a function that constants call");
            } else {
                self.sites.push(Site { range: range(keyword), mutants: Vec::new(), change: Change::Const });
            }
        }
        // In a constant there may be functions, which are no constants themselves.
        let before = std::mem::replace(&mut self.in_constant, reason);
        if let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) {
            let range = range(first).start..range(last).end;
            if let Some(mutants) = self.take(Genre::Body, range.start) {
                self.sites.push(Site { range, mutants, change: Change::Body });
            }
        }
        visit(self);
        self.in_constant = before;
    }
}

const CONSTANT: Option<&str> = Some("a constant");

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block, |finder| visit::visit_item_fn(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block, |finder| visit::visit_impl_item_fn(finder, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        match &item.default {
            Some(block) => self.function(&item.sig, block, |finder| visit::visit_trait_item_fn(finder, item)),
            None => visit::visit_trait_item_fn(self, item),
        }
    }

    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        let operator = range(&expression.op);
        if let Some(mutants) = self.take(Genre::Binary, operator.start) {
            let (text, kind) = operator_of(&expression.op);
            let change = Change::Binary {
                left: range(&expression.left),
                operator: text,
                right: range(&expression.right),
                kind,
            };
            self.sites.push(Site { range: range(expression), mutants, change });
        }
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast syn::ExprUnary) {
        let operator = range(&expression.op);
        if let Some(mutants) = self.take(Genre::Unary, operator.start) {
            let text = if matches!(expression.op, syn::UnOp::Not(_)) { "!" } else { "-" }.to_owned();
            let change = Change::Unary { operator: text, operand: range(&expression.expr) };
            self.sites.push(Site { range: range(expression), mutants, change });
        }
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        let of = expression.arms.iter().filter(|arm| arm.guard.is_none());
        let arms = of.filter_map(|arm| self.wanted.get(&(Genre::Arm, range(arm).start))).flatten();
        let arms: Vec<u32> = arms.map(|mutant| mutant.id).collect();
        if !arms.is_empty() {
            let change = Change::Match { arms };
            self.sites.push(Site { range: range(expression), mutants: Vec::new(), change });
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let mut mutants = self.take(Genre::Arm, range(arm).start).unwrap_or_default();
        let guard = arm.guard.as_ref().map(|(_, guard)| range(guard));
        if let Some(guard) = &guard {
            mutants.extend(self.take(Genre::Guard, guard.start).unwrap_or_default());
        }
        if !mutants.is_empty() {
            let end = range(&arm.pat).end;
            self.sites.push(Site {
                range: guard.clone().unwrap_or(end..end),
                mutants,
                change: Change::Guard { guard },
            });
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        for field in &expression.fields {
            let Some(base) = &expression.rest else { break };
            if let Some(mutants) = self.take(Genre::Field, range(field).start) {
                let syn::Member::Named(name) = &field.member else { continue };
                let change = Change::Field {
                    name: name.to_string(),
                    value: range(&field.expr),
                    shorthand: field.colon_token.is_none(),
                    base: range(base),
                    path: range(&expression.path),
                    is_place: matches!(
                        **base,
                        syn::Expr::Path(_) | syn::Expr::Field(_) | syn::Expr::Unary(_)
                    ),
                };
                self.sites.push(Site { range: range(&field.expr), mutants, change });
            }
        }
        visit::visit_expr_struct(self, expression);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within(CONSTANT, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within(CONSTANT, |finder| visit::visit_item_static(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.within(CONSTANT, |finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.within(CONSTANT, |finder| visit::visit_trait_item_const(finder, item));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.within(CONSTANT, |finder| visit::visit_variant(finder, variant));
    }

    fn visit_type(&mut self, of: &'ast syn::Type) {
        self.within(CONSTANT, |finder| visit::visit_type(finder, of));
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        self.within(CONSTANT, |finder| visit::visit_generic_argument(finder, argument));
    }

    fn visit_expr_const(&mut self, expression: &'ast syn::ExprConst) {
        self.within(CONSTANT, |finder| visit::visit_expr_const(finder, expression));
    }

    fn visit_expr_repeat(&mut self, expression: &'ast syn::ExprRepeat) {
        self.visit_expr(&expression.expr);
        self.within(CONSTANT, |finder| finder.visit_expr(&expression.len));
    }

    fn visit_pat(&mut self, pattern: &'ast syn::Pat) {
        self.within(Some("a pattern"), |finder| visit::visit_pat(finder, pattern));
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn operator_of(operator: &syn::BinOp) -> (String, OperatorKind) {
    use syn::BinOp::*;
    let (text, kind) = match operator {
        And(_) => ("&&", OperatorKind::Lazy),
        Or(_) => ("||", OperatorKind::Lazy),
        Eq(_) => ("==", OperatorKind::Comparison),
        Ne(_) => ("!=", OperatorKind::Comparison),
        Lt(_) => ("<", OperatorKind::Comparison),
        Le(_) => ("<=", OperatorKind::Comparison),
        Gt(_) => (">", OperatorKind::Comparison),
        Ge(_) => (">=", OperatorKind::Comparison),
        Add(_) => ("+", OperatorKind::Value),
        Sub(_) => ("-", OperatorKind::Value),
        Mul(_) => ("*", OperatorKind::Value),
        Div(_) => ("/", OperatorKind::Value),
        Rem(_) => ("%", OperatorKind::Value),
        BitAnd(_) => ("&", OperatorKind::Value),
        BitOr(_) => ("|", OperatorKind::Value),
        BitXor(_) => ("^", OperatorKind::Value),
        Shl(_) => ("<<", OperatorKind::Value),
        Shr(_) => (">>", OperatorKind::Value),
        AddAssign(_) => ("+=", OperatorKind::Assignment),
        SubAssign(_) => ("-=", OperatorKind::Assignment),
        MulAssign(_) => ("*=", OperatorKind::Assignment),
        DivAssign(_) => ("/=", OperatorKind::Assignment),
        RemAssign(_) => ("%=", OperatorKind::Assignment),
        BitAndAssign(_) => ("&=", OperatorKind::Assignment),
        BitOrAssign(_) => ("|=", OperatorKind::Assignment),
        BitXorAssign(_) => ("^=", OperatorKind::Assignment),
        ShlAssign(_) => ("<<=", OperatorKind::Assignment),
        ShrAssign(_) => (">>=", OperatorKind::Assignment),
        _ => unreachable!("an operator that Rust does not have"),
    };
    (text.to_owned(), kind)
}

/// Writes the source with its sites replaced.
struct Writer<'a> {
    source: &'a str,
    text: String,
    regions: Vec<Region>,
    matches: Vec<Region>,
}

impl Writer<'_> {
    /// Writes a part of the source; `sites` are those inside of it, in order.
    fn write(&mut self, part: Range<usize>, sites: &[Site]) {
        let mut at = part.start;
        let mut left = sites;
        while let Some((site, after)) = left.split_first() {
            self.text.push_str(&self.source[at..site.range.start]);
            let inside = after.iter().take_while(|other| other.range.start < site.range.end).count();
            let begin = self.text.len();
            self.change(site, &after[..inside]);
            // An error in a body is not that of what returns before it.
            if !matches!(site.change, Change::Body) {
                self.blame(begin, site.mutants.iter().map(|mutant| mutant.id).collect(), false);
            }
            at = site.range.end;
            left = &after[inside..];
        }
        self.text.push_str(&self.source[at..part.end]);
    }

    fn blame(&mut self, start: usize, ids: Vec<u32>, alone: bool) {
        if !ids.is_empty() {
            self.regions.push(Region { start, end: self.text.len(), ids, alone });
        }
    }

    /// Writes a part of a site, with the sites in it.
    fn part(&mut self, part: &Range<usize>, sites: &[Site]) {
        let first = sites.iter().take_while(|site| site.range.start < part.start).count();
        let count = sites[first..].iter().take_while(|site| site.range.end <= part.end).count();
        self.write(part.clone(), &sites[first..first + count]);
    }

    /// Writes `if mutant { … } else` for each of the mutants.
    fn choices(&mut self, mutants: &[Mutant], mut alternative: impl FnMut(&mut Self, &Mutant)) {
        for mutant in mutants {
            let begin = self.text.len();
            self.text.push_str(&format!("if crate::mutant({}) {{ ", mutant.id));
            alternative(self, mutant);
            self.text.push_str(" }");
            self.blame(begin, vec![mutant.id], true);
            self.text.push_str(" else ");
        }
    }

    fn change(&mut self, site: &Site, inside: &[Site]) {
        match &site.change {
            Change::Const => {}
            Change::Match { arms } => {
                let start = self.text.len();
                self.write(site.range.clone(), inside);
                let end = self.text.len();
                self.matches.push(Region { start, end, ids: arms.clone(), alone: false });
            }
            Change::Body => {
                for mutant in &site.mutants {
                    let begin = self.text.len();
                    self.text.push_str(&format!(
                        "if crate::mutant({}) {{ return {}; }} ",
                        mutant.id, mutant.replacement
                    ));
                    self.blame(begin, vec![mutant.id], true);
                }
                self.write(site.range.clone(), inside);
            }
            Change::Binary { left, operator, right, kind } => {
                self.binary(site, inside, (left, operator, right), *kind);
            }
            Change::Unary { operator, operand } if site.mutants.iter().any(|mutant| mutant.doubled) => {
                self.text.push('(');
                self.choices(&site.mutants, |writer, _| writer.part(operand, inside));
                self.text.push_str(&format!("{{ {operator}"));
                self.part(operand, inside);
                self.text.push_str(" })");
            }
            Change::Unary { operator, operand } => {
                self.text.push_str("(match ");
                self.part(operand, inside);
                self.text.push_str(" { operand_ => ");
                self.choices(&site.mutants, |writer, _| writer.text.push_str("operand_"));
                self.text.push_str(&format!("{{ {operator}operand_ }} }})"));
            }
            Change::Guard { guard } => self.guard(site, guard.as_ref(), inside),
            Change::Field { name, value, shorthand, base, path, is_place } => {
                if *shorthand {
                    self.text.push_str(&format!("{name}: "));
                }
                let (base, path) = (&self.source[base.clone()], &self.source[path.clone()]);
                self.text.push('(');
                self.choices(&site.mutants, |writer, _| {
                    writer.text.push_str(&match is_place {
                        true => format!("{base}.{name}"),
                        false => format!("let base_: {path} = {base}; base_.{name}"),
                    });
                });
                self.text.push_str("{ ");
                self.part(value, inside);
                self.text.push_str(" })");
            }
        }
    }

    fn operation(&mut self, left: &Range<usize>, operator: &str, right: &Range<usize>, inside: &[Site]) {
        // The left side of an assignment is a place, which parentheses leave one.
        self.text.push('(');
        self.part(left, inside);
        self.text.push_str(&format!(") {operator} ("));
        self.part(right, inside);
        self.text.push(')');
    }

    fn binary(
        &mut self,
        site: &Site,
        inside: &[Site],
        (left, operator, right): (&Range<usize>, &str, &Range<usize>),
        kind: OperatorKind,
    ) {
        let doubled = site.mutants.iter().any(|mutant| mutant.doubled);
        if kind == OperatorKind::Lazy {
            // `a && b` is `a` if `a` is false, `a || b` is `a` if it is true; otherwise both are `b`. Written like this no
            // operand is doubled, and nested operators do not grow without bound.
            let ids: Vec<String> =
                site.mutants.iter().map(|mutant| format!("crate::mutant({})", mutant.id)).collect();
            let compared = if operator == "||" { "==" } else { "!=" };
            self.text.push_str("({ let left_: bool = ");
            self.part(left, inside);
            self.text.push_str(&format!("; if left_ {compared} ({}) {{ ", ids.join(" || ")));
            self.part(right, inside);
            self.text.push_str(" } else { left_ } })");
            return;
        }
        if doubled {
            self.text.push('(');
            self.choices(&site.mutants, |writer, mutant| {
                writer.operation(left, &mutant.replacement, right, inside);
            });
            self.text.push_str("{ ");
            self.operation(left, operator, right, inside);
            self.text.push_str(" })");
            return;
        }
        match kind {
            OperatorKind::Comparison => {
                self.text.push_str("(match (&(");
                self.part(left, inside);
                self.text.push_str("), &(");
                self.part(right, inside);
                self.text.push_str(")) { (left_, right_) => ");
                self.choices(&site.mutants, |writer, mutant| {
                    writer.text.push_str(&format!("*left_ {} *right_", mutant.replacement));
                });
                self.text.push_str(&format!("{{ *left_ {operator} *right_ }} }})"));
            }
            OperatorKind::Assignment => {
                self.text.push_str("(match ");
                self.part(right, inside);
                self.text.push_str(" { right_ => ");
                self.choices(&site.mutants, |writer, mutant| {
                    writer.part(left, inside);
                    writer.text.push_str(&format!(" {} right_", mutant.replacement));
                });
                self.text.push_str("{ ");
                self.part(left, inside);
                self.text.push_str(&format!(" {operator} right_ }} }})"));
            }
            OperatorKind::Value | OperatorKind::Lazy => {
                self.text.push_str("(match (");
                self.part(left, inside);
                self.text.push_str(", ");
                self.part(right, inside);
                self.text.push_str(") { (left_, right_) => ");
                self.choices(&site.mutants, |writer, mutant| {
                    writer.text.push_str(&format!("left_ {} right_", mutant.replacement));
                });
                self.text.push_str(&format!("{{ left_ {operator} right_ }} }})"));
            }
        }
    }

    /// Writes the guard of an arm that is left out, or whose guard is always true or false.
    fn guard(&mut self, site: &Site, guard: Option<&Range<usize>>, inside: &[Site]) {
        let switches = |genre, replacement: &str| -> String {
            let of = site.mutants.iter().filter(|mutant| Genre::of(&mutant.genre) == Some(genre));
            of.filter(|mutant| mutant.replacement == replacement)
                .map(|mutant| format!(" || crate::mutant({})", mutant.id))
                .collect()
        };
        let (left_out, always, never) =
            (switches(Genre::Arm, ""), switches(Genre::Guard, "true"), switches(Genre::Guard, "false"));
        match guard {
            None => self.text.push_str(&format!(" if !(false{left_out})")),
            Some(guard) => {
                self.text.push_str(&format!("(!(false{left_out}{never}) && (false{always} || ("));
                self.part(guard, inside);
                self.text.push_str(")))");
            }
        }
    }
}
