//! Weaves all changes that cargo-mutants lists into one tree, each behind `mutant::on(N)`: so one build serves them all, and the
//! environment says which one is made.
//!
//! `weave-mutants TREE LIST LEFT_OUT`: LIST is what `cargo mutants --list --json` prints; N is a change's place in it. LEFT_OUT has a number a line
//! (what did not compile). Standard output has a line for each alternative that was woven in, `file start end N` (bytes of the new
//! file), by which `ci/soak.d/mutants` finds whose fault an error of the compiler is. What can't be woven in (in a constant, say)
//! is named on standard error.

use std::collections::{BTreeMap, HashSet};

use proc_macro2::{LineColumn, Span};
use serde_json::Value;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// A change: its number, where it is by lines and columns, and what stands there instead.
struct Change {
    number: usize,
    genre: String,
    start: (usize, usize),
    end: (usize, usize),
    replacement: String,
}

/// An expression with other ones that may stand in its place.
struct Node {
    start: usize,
    end: usize,
    others: Vec<(usize, String)>,
}

/// Text that comes in between.
struct Insertion {
    at: usize,
    number: usize,
    text: String,
}

struct File<'a> {
    text: &'a str,
    /// The byte at which each line starts.
    lines: Vec<usize>,
    changes: Vec<Change>,
    woven: HashSet<usize>,
    nodes: BTreeMap<(usize, std::cmp::Reverse<usize>), Node>,
    insertions: Vec<Insertion>,
    /// How `on` is called here.
    on: &'static str,
    constant: u32,
}

impl File<'_> {
    fn byte(&self, place: LineColumn) -> usize {
        let line = self.lines[place.line - 1];
        let rest = &self.text[line..];
        line + rest
            .char_indices()
            .nth(place.column)
            .map_or(rest.len(), |(at, _)| at)
    }

    fn range(&self, span: Span) -> (usize, usize) {
        (self.byte(span.start()), self.byte(span.end()))
    }

    /// The changes of a genre at exactly that place.
    fn at(&self, genre: &str, span: Span) -> Vec<usize> {
        // cargo-mutants counts columns from 1.
        let (start, end) = (span.start(), span.end());
        let place = ((start.line, start.column + 1), (end.line, end.column + 1));
        (0..self.changes.len())
            .filter(|&one| {
                let change = &self.changes[one];
                change.genre == genre && (change.start, change.end) == place
            })
            .collect()
    }

    fn other(&mut self, (start, end): (usize, usize), change: usize, text: String) {
        // A chain of `let` is one only as it stands.
        let chain = self.text[start..end].contains("let ");
        if self.constant > 0 || chain || syn::parse_str::<syn::Expr>(&text).is_err() {
            return;
        }
        let number = self.changes[change].number;
        self.woven.insert(number);
        let node = self.nodes.entry((start, std::cmp::Reverse(end))).or_insert(Node {
            start,
            end,
            others: Vec::new(),
        });
        node.others.push((number, text));
    }

    fn body(&mut self, block: &syn::Block) {
        let span = match (block.stmts.first(), block.stmts.last()) {
            (Some(first), Some(last)) => (first.span().start(), last.span().end()),
            _ => return,
        };
        let whole = (block.span().start(), block.span().end());
        for one in 0..self.changes.len() {
            let change = &self.changes[one];
            let here = |(start, end): (LineColumn, LineColumn)| {
                change.start == (start.line, start.column + 1) && change.end == (end.line, end.column + 1)
            };
            if change.genre == "FnValue" && self.constant == 0 && (here(span) || here(whole)) {
                let text = format!(
                    " if {}({}) {{ return {}; }} ",
                    self.on, change.number, change.replacement
                );
                let insertion = Insertion {
                    at: self.byte(block.brace_token.span.open().end()),
                    number: change.number,
                    text,
                };
                self.woven.insert(change.number);
                self.insertions.push(insertion);
            }
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block, visit: impl FnOnce(&mut Self)) {
        let constant = u32::from(signature.constness.is_some());
        self.constant += constant;
        self.body(block);
        visit(self);
        self.constant -= constant;
    }

    fn constant(&mut self, visit: impl FnOnce(&mut Self)) {
        self.constant += 1;
        visit(self);
        self.constant -= 1;
    }

    /// The new text of a part, with the places of the alternatives in the whole of it.
    fn render(
        &self,
        start: usize,
        end: usize,
        skip: Option<(usize, usize)>,
        out: &mut String,
        places: &mut Vec<(usize, usize, usize)>,
    ) {
        let mut at = start;
        while at < end {
            let node = self
                .nodes
                .values()
                .filter(|node| node.start >= at && node.end <= end)
                .filter(|node| skip != Some((node.start, node.end)))
                .min_by_key(|node| (node.start, std::cmp::Reverse(node.end)));
            let until = node.map_or(end, |node| node.start);
            self.plain(at, until, out, places);
            let Some(node) = node else { return };
            out.push('(');
            let whole = out.len();
            for (number, text) in &node.others {
                out.push_str(&format!("if {}({number}) {{ ", self.on));
                let from = out.len();
                out.push_str(text);
                places.push((from, out.len(), *number));
                out.push_str(" } else ");
            }
            out.push_str("{ ");
            self.render(node.start, node.end, Some((node.start, node.end)), out, places);
            out.push_str(" }");
            for (number, _) in &node.others {
                places.push((whole, out.len(), *number));
            }
            out.push(')');
            at = node.end;
        }
    }

    fn plain(&self, start: usize, end: usize, out: &mut String, places: &mut Vec<(usize, usize, usize)>) {
        let mut insertions: Vec<&Insertion> = self
            .insertions
            .iter()
            .filter(|one| one.at >= start && one.at < end)
            .collect();
        insertions.sort_by_key(|one| one.at);
        let mut at = start;
        for one in insertions {
            out.push_str(&self.text[at..one.at]);
            let from = out.len();
            out.push_str(&one.text);
            places.push((from, out.len(), one.number));
            at = one.at;
        }
        out.push_str(&self.text[at..end]);
    }
}

impl<'ast> Visit<'ast> for File<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block, |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block, |this| {
            visit::visit_impl_item_fn(this, item)
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block, |this| visit::visit_trait_item_fn(this, item));
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant(|this| visit::visit_item_const(this, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constant(|this| visit::visit_item_static(this, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(|this| visit::visit_impl_item_const(this, item));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.constant(|this| visit::visit_item_enum(this, item));
    }

    fn visit_type(&mut self, item: &'ast syn::Type) {
        self.constant(|this| visit::visit_type(this, item));
    }

    fn visit_pat(&mut self, item: &'ast syn::Pat) {
        self.constant(|this| visit::visit_pat(this, item));
    }

    fn visit_expr_const(&mut self, item: &'ast syn::ExprConst) {
        self.constant(|this| visit::visit_expr_const(this, item));
    }

    fn visit_expr_repeat(&mut self, item: &'ast syn::ExprRepeat) {
        self.visit_expr(&item.expr);
        self.constant(|this| this.visit_expr(&item.len));
    }

    fn visit_expr_binary(&mut self, item: &'ast syn::ExprBinary) {
        for one in self.at("BinaryOperator", item.op.span()) {
            let (range, op) = (self.range(item.span()), self.range(item.op.span()));
            let text = format!(
                "{}{}{}",
                &self.text[range.0..op.0],
                self.changes[one].replacement,
                &self.text[op.1..range.1]
            );
            self.other(range, one, text);
        }
        visit::visit_expr_binary(self, item);
    }

    fn visit_expr_unary(&mut self, item: &'ast syn::ExprUnary) {
        for one in self.at("UnaryOperator", item.op.span()) {
            let (range, op) = (self.range(item.span()), self.range(item.op.span()));
            let text = format!("{}{}", self.changes[one].replacement, &self.text[op.1..range.1]);
            self.other(range, one, text);
        }
        visit::visit_expr_unary(self, item);
    }

    fn visit_expr_struct(&mut self, item: &'ast syn::ExprStruct) {
        for field in &item.fields {
            let start = field.span().start();
            let here = |change: &Change| {
                change.genre == "StructField" && change.start == (start.line, start.column + 1)
            };
            let found: Vec<usize> = (0..self.changes.len())
                .filter(|&one| here(&self.changes[one]))
                .collect();
            for one in found {
                let (range, gone) = (self.range(item.span()), self.range(field.span()));
                let rest = self.text[gone.1..range.1].trim_start();
                let text = format!(
                    "{}{}",
                    &self.text[range.0..gone.0],
                    rest.strip_prefix(',').unwrap_or(rest)
                );
                self.other(range, one, text);
            }
        }
        visit::visit_expr_struct(self, item);
    }

    fn visit_arm(&mut self, item: &'ast syn::Arm) {
        for one in self.at("MatchArm", item.span()) {
            if self.constant > 0 {
                continue;
            }
            let number = self.changes[one].number;
            let (at, text) = match &item.guard {
                Some((_, guard)) => (self.range(guard.span()).0, format!("!{}({number}) && ", self.on)),
                None => (
                    self.range(item.pat.span()).1,
                    format!(" if !{}({number}) ", self.on),
                ),
            };
            // `a || b` would be taken apart.
            if item.guard.as_ref().is_some_and(|(_, guard)| {
                matches!(&**guard, syn::Expr::Binary(binary) if matches!(binary.op, syn::BinOp::Or(_)))
            }) {
                continue;
            }
            self.woven.insert(number);
            self.insertions.push(Insertion { at, number, text });
        }
        if let Some((_, guard)) = &item.guard {
            for one in self.at("MatchArmGuard", guard.span()) {
                self.other(
                    self.range(guard.span()),
                    one,
                    self.changes[one].replacement.clone(),
                );
            }
        }
        visit::visit_arm(self, item);
    }
}

fn place(value: &Value) -> (usize, usize) {
    let number = |name: &str| value[name].as_u64().unwrap() as usize;
    (number("line"), number("column"))
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, tree, list, left_out] = arguments.as_slice() else {
        panic!("weave-mutants TREE LIST LEFT_OUT");
    };
    let list: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(list).unwrap()).unwrap();
    let left_out: HashSet<usize> = std::fs::read_to_string(left_out)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    let mut files: BTreeMap<&str, Vec<Change>> = BTreeMap::new();
    for (number, one) in list
        .iter()
        .enumerate()
        .filter(|(number, _)| !left_out.contains(number))
    {
        files
            .entry(one["file"].as_str().unwrap())
            .or_default()
            .push(Change {
                number,
                genre: one["genre"].as_str().unwrap().into(),
                start: place(&one["span"]["start"]),
                end: place(&one["span"]["end"]),
                replacement: one["replacement"].as_str().unwrap().into(),
            });
    }
    for (name, changes) in files {
        let path = format!("{tree}/{name}");
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed = syn::parse_file(&text).unwrap();
        let mut lines = vec![0];
        lines.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        let mut file = File {
            text: &text,
            lines,
            changes,
            woven: HashSet::new(),
            nodes: BTreeMap::new(),
            insertions: Vec::new(),
            on: if name.starts_with("src/bin/") {
                "weft::mutant::on"
            } else {
                "crate::mutant::on"
            },
            constant: 0,
        };
        file.visit_file(&parsed);
        let (mut out, mut places) = (String::new(), Vec::new());
        file.render(0, text.len(), None, &mut out, &mut places);
        for (start, end, number) in places {
            println!("{name} {start} {end} {number}");
        }
        for change in file
            .changes
            .iter()
            .filter(|change| !file.woven.contains(&change.number))
        {
            eprintln!("{} {}", change.number, change.genre);
        }
        std::fs::write(&path, out).unwrap();
    }
}
