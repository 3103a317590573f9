//! A family of decoders is one folder's business: its configuration says which operators a layer has and how tensors are
//! named, and no other file asks which family a model is of.

use syn::visit::{self, Visit};
use syn::{Member, UseTree};
use tests::repository;

/// The families, as `reference::config` has them.
const FAMILIES: [&str; 3] = ["M2", "M3", "M3_TEXT"];

/// The sources that may name them: the list of all, and each family's own, in order.
const MAY_NAME: [&str; 3] =
    ["reference/src/config/families.rs", "reference/src/config/m2.rs", "reference/src/config/m3.rs"];

/// Files outside of its own that a new family touches, at most.
const MOST: usize = 8;

/// Where a source names a family, or compares by one's type.
#[derive(Default)]
struct Named(Vec<String>);

impl Named {
    fn add(&mut self, ident: &syn::Ident) {
        if FAMILIES.iter().any(|family| ident == family) {
            self.0.push(ident.to_string());
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

impl<'ast> Visit<'ast> for Named {
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
            self.0.push("model_type".to_owned());
        }
        visit::visit_expr_field(self, field);
    }
}

fn named(text: &str) -> Vec<String> {
    let mut named = Named::default();
    named.visit_file(&syn::parse_file(text).expect("a source is Rust"));
    named.0
}

#[test]
fn only_its_own_files_know_a_family() {
    let mut knowing = Vec::new();
    for folder in ["reference/src", "fixtures/src", "optimized/src", "tools/src"] {
        for path in repository::files(folder, &["rs"]) {
            if !named(&repository::text(&path).expect("a source is text")).is_empty() {
                knowing.push(path);
            }
        }
    }
    knowing.sort();
    assert_eq!(knowing, MAY_NAME, "ask the configuration what a layer has, or `Architecture` how a tensor is named");
}

#[test]
fn a_family_is_found_however_it_is_named() {
    for text in [
        "use reference::config::{Config, m2::M2};",
        "use reference::config::m3::M3 as Third;",
        "fn f(c: &Config) -> bool { c.architecture == m3::M3_TEXT }",
        "fn f(c: &Config) -> bool { c.architecture.model_type == \"minimax_m2\" }",
        "fn f(c: &Config) -> u8 { match c.architecture { M2 => 1, _ => 0 } }",
    ] {
        assert_eq!(named(text).len(), 1, "{text}");
    }
    assert_eq!(named("/// M2.\nfn f() -> &'static str { \"M2\" }"), Vec::<String>::new());
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
    let unlisted = MAY_NAME.iter().filter(|path| !shared.contains(path) && !path.contains("/m"));
    assert_eq!(unlisted.collect::<Vec<_>>(), Vec::<&&str>::new());
}
