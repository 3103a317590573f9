//! A family of decoders is one folder's business: its configuration says which operators a layer has and how tensors are
//! named, and no other file asks which family a model is of.

use std::collections::{BTreeMap, BTreeSet};

use reference::config::families::architectures;
use syn::visit::{self, Visit};
use syn::{Item, Member, Type, UseTree, Visibility};
use tests::repository;

/// Where families are declared: each in a file of its own.
const CONFIG: &str = "reference/src/config";

/// The list of all.
const LIST: &str = "reference/src/config/families.rs";

/// Files outside of its own that a new family touches, at most.
const MOST: usize = 8;

/// The names of the families that a source declares: `pub const NAME: Architecture`.
fn declared(text: &str) -> Vec<String> {
    let file = syn::parse_file(text).expect("a source is Rust");
    let family = |item: &Item| match item {
        Item::Const(syn::ItemConst { vis: Visibility::Public(_), ident, ty, .. }) => match &**ty {
            Type::Path(ty) if ty.path.segments.last()?.ident == "Architecture" => Some(ident.to_string()),
            _ => None,
        },
        _ => None,
    };
    file.items.iter().filter_map(family).collect()
}

/// The files that declare families, with the names of those.
fn declarations() -> BTreeMap<String, Vec<String>> {
    let files = repository::files(CONFIG, &["rs"]).into_iter();
    let declared = files.map(|path| (path.clone(), declared(&repository::text(&path).expect("a source is text"))));
    declared.filter(|(_, families)| !families.is_empty()).collect()
}

/// The names of all families.
fn families() -> BTreeSet<String> {
    declarations().into_values().flatten().collect()
}

/// Where a source names a family, or compares by one's type.
struct Named<'f> {
    families: &'f BTreeSet<String>,
    found: Vec<String>,
}

impl Named<'_> {
    fn add(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        if self.families.contains(&name) {
            self.found.push(name);
        }
    }

    fn add_tree(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.add_tree(&path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(item)),
            UseTree::Name(name) => self.add(&name.ident),
            UseTree::Rename(name) => self.add(&name.ident),
            UseTree::Glob(_) => {}
        }
    }
}

impl<'ast> Visit<'ast> for Named<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree(&item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(last) = path.segments.last() {
            self.add(&last.ident);
        }
        visit::visit_path(self, path);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.add(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.add(&item.ident);
        visit::visit_item_const(self, item);
    }

    fn visit_expr_field(&mut self, field: &'ast syn::ExprField) {
        if matches!(&field.member, Member::Named(name) if name == "model_type") {
            self.found.push("model_type".to_owned());
        }
        visit::visit_expr_field(self, field);
    }
}

fn named(text: &str, families: &BTreeSet<String>) -> Vec<String> {
    let mut named = Named { families, found: Vec::new() };
    named.visit_file(&syn::parse_file(text).expect("a source is Rust"));
    named.found
}

#[test]
fn every_family_is_declared_where_it_is_looked_for() {
    assert_eq!(families().len(), architectures().count(), "{:?}: declare each in {CONFIG}", families());
    let text = "pub const A: Architecture = x;\npub const B: super::Architecture = x;\nconst C: Architecture = x;\n\
                pub const D: [Architecture; 1] = [x];\npub const E: &str = \"\";\n";
    assert_eq!(declared(text), ["A", "B"]);
}

#[test]
fn only_its_own_files_know_a_family() {
    let (families, mut knowing) = (families(), BTreeSet::new());
    for folder in ["reference/src", "fixtures/src", "optimized/src", "tools/src"] {
        for path in repository::files(folder, &["rs"]) {
            if !named(&repository::text(&path).expect("a source is text"), &families).is_empty() {
                knowing.insert(path);
            }
        }
    }
    let may_name: BTreeSet<String> = declarations().into_keys().chain([LIST.to_owned()]).collect();
    assert_eq!(knowing, may_name, "ask the configuration what a layer has, or `Architecture` how a tensor is named");
}

#[test]
fn a_family_is_found_however_it_is_named() {
    let families = families();
    for text in [
        "use reference::config::{Config, m2::M2};",
        "use reference::config::m3::M3 as Third;",
        "fn f(c: &Config) -> bool { c.architecture == m3::M3_TEXT }",
        "fn f(c: &Config) -> bool { c.architecture.model_type == \"minimax_m2\" }",
        "fn f(c: &Config) -> u8 { match c.architecture { M2 => 1, _ => 0 } }",
    ] {
        assert_eq!(named(text, &families).len(), 1, "{text}");
    }
    assert_eq!(named("/// M2.\nfn f() -> &'static str { \"M2\" }", &families), Vec::<String>::new());
}

/// The files that `ARCHITECTURE.md` lists: those of the family, with NAME for its name, and those of all.
#[test]
fn what_a_new_family_touches_is_listed() {
    let text = repository::text("ARCHITECTURE.md").expect("it is text");
    let (_, section) = text.split_once("## To add a family").expect("it says how to add a family");
    let section = section.split("\n## ").next().expect("a section has a beginning");
    let listed: Vec<&str> = section.split('`').skip(1).step_by(2).filter(|word| word.contains('/')).collect();
    let (own, shared): (Vec<&str>, Vec<&str>) = listed.iter().partition(|path| path.contains("NAME"));
    for path in own.iter().map(|path| path.replace("NAME", "m3")).chain(shared.iter().map(ToString::to_string)) {
        assert!(repository::path(&path).exists(), "{path} is listed, and is not there");
    }
    assert!((1..=MOST).contains(&shared.len()), "{shared:?}: expected at most {MOST} outside of the family's own");
    assert!(shared.contains(&LIST), "{shared:?}: expected {LIST}");
}
