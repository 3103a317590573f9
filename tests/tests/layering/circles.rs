//! No file of a crate imports, through others or directly, a file that imports it. A module that its parent re-exports
//! counts as itself, and a submodule as a file like any other.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, UseTree, Visibility};
use tests::repository;

/// The folders of the crates that are held to the rule.
const CRATES: [&str; 7] =
    ["reference/src", "fixtures/src", "optimized/src", "tools/src", "tools/python/src", "tools/rust/src", "tests/src"];

/// A module's path below its crate, or an item's below that.
type Path = Vec<String>;

/// What a file says of others.
#[derive(Default)]
struct Imports {
    /// The paths that it names, from the crate's root.
    named: Vec<Path>,
    /// The path that stands behind a name that it hands on.
    handed_on: BTreeMap<String, Path>,
}

/// Reads a file, item by item.
struct Reader<'a> {
    files: &'a BTreeSet<Path>,
    /// The file's module, and modules inside the file around the item that is read.
    inside: Path,
    imports: Imports,
}

impl Reader<'_> {
    /// A path from the crate's root; `None` if it is another crate's, or a name of this file.
    fn of_root(&self, path: &[String]) -> Option<Path> {
        let mut base = self.inside.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            child if self.files.contains(&[&base[..], &[child.to_owned()]].concat()) => {}
            _ => return None,
        }
        Some([&base[..], rest].concat())
    }

    fn add(&mut self, path: &[String], handed_on: bool) {
        let Some(path) = self.of_root(path) else { return };
        if let Some(name) = path.last().filter(|_| handed_on) {
            self.imports.handed_on.insert(name.clone(), path.clone());
        }
        self.imports.named.push(path);
    }

    fn add_tree(&mut self, tree: &UseTree, before: &mut Path, handed_on: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_tree(&path.tree, before, handed_on);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(item, before, handed_on)),
            UseTree::Name(name) if name.ident == "self" => self.add(before, handed_on),
            UseTree::Name(name) => self.add(&[&before[..], &[name.ident.to_string()]].concat(), handed_on),
            UseTree::Rename(name) => self.add(&[&before[..], &[name.ident.to_string()]].concat(), handed_on),
            UseTree::Glob(_) => self.add(before, false),
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&item.tree, &mut Vec::new(), !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.content.is_some() {
            self.inside.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.inside.pop();
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if parts.len() > 1 && path.leading_colon.is_none() {
            self.add(&parts, false);
        }
        visit::visit_path(self, path);
    }
}

/// The file that a path leads to, through what files hand on.
fn file_of(path: &Path, files: &BTreeMap<Path, Imports>) -> Path {
    let mut path = path.clone();
    // Each step goes through one name that is handed on; a chain of them is no longer than there are files.
    for _ in 0..files.len() {
        let file = (0..=path.len()).rev().map(|n| &path[..n]).find(|file| files.contains_key(*file));
        let file = file.expect("the crate's root is a file").to_vec();
        let behind = path.get(file.len()).and_then(|name| files[&file].handed_on.get(name));
        let Some(behind) = behind.filter(|behind| **behind != path) else { return file };
        path = [&behind[..], &path[file.len() + 1..]].concat();
    }
    panic!("{} is handed on in a circle", path.join("::"));
}

/// The circles among a crate's files, each with the imports that tie it. Files are (path below the crate's, text).
fn circles(sources: &[(String, String)]) -> Vec<String> {
    let module = |path: &str| -> Path {
        let path = path.trim_end_matches(".rs");
        if ["lib", "main"].contains(&path) { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
    };
    let names: BTreeSet<Path> = sources.iter().map(|(path, _)| module(path)).collect();
    let mut files: BTreeMap<Path, Imports> = BTreeMap::new();
    for (path, text) in sources {
        let inside = module(path);
        let mut reader = Reader { files: &names, inside: inside.clone(), imports: Imports::default() };
        reader.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}")));
        let file = files.entry(inside).or_default();
        file.named.extend(reader.imports.named);
        file.handed_on.extend(reader.imports.handed_on);
    }
    let mut graph: DiGraphMap<&Path, ()> = DiGraphMap::new();
    for (file, imports) in &files {
        for named in &imports.named {
            let used = file_of(named, &files);
            let (used, _) = files.get_key_value(&used).expect("it is a file");
            if used != file {
                graph.add_edge(file, used, ());
            }
        }
    }
    let circles = tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1);
    let shown = |path: &Path| if path.is_empty() { "(root)".to_owned() } else { path.join("::") };
    circles
        .map(|circle| {
            let ties = graph.all_edges().filter(|(from, to, ())| circle.contains(from) && circle.contains(to));
            let ties: Vec<String> = ties.map(|(from, to, ())| format!("{} -> {}", shown(from), shown(to))).collect();
            format!("files import each other in a circle; move what both need below both: {}", ties.join(", "))
        })
        .collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut found = Vec::new();
    for folder in CRATES {
        let read = |path: String| {
            let text = repository::text(&path).expect("a source is text");
            (path[folder.len() + 1..].to_owned(), text)
        };
        let sources: Vec<(String, String)> = repository::files(folder, &["rs"]).into_iter().map(read).collect();
        assert!(!sources.is_empty(), "{folder} has sources");
        found.extend(circles(&sources).into_iter().map(|circle| format!("{folder}: {circle}")));
    }
    super::demand_none(&found);
}

#[test]
fn a_circle_is_found_however_it_is_closed() {
    let tied = |files: &[(&str, &str)]| {
        let sources: Vec<(String, String)> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        circles(&sources)
    };
    let root = ("lib.rs", "mod a; mod b; mod c; pub use c::C;");
    let two = [root, ("a.rs", "use crate::b::B; pub struct A;"), ("b.rs", "pub struct B(crate::a::A);"), ("c.rs", "")];
    let found = tied(&two);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("a -> b, b -> a"), "{found:?}");

    let through_the_root = [root, ("a.rs", "use crate::C;"), ("b.rs", ""), ("c.rs", "use super::a::A; pub struct C;")];
    assert_eq!(tied(&through_the_root).len(), 1);

    let with_a_child = [("lib.rs", "mod a;"), ("a.rs", "mod b; fn f() { b::g(); }"), ("a/b.rs", "use super::f;")];
    assert_eq!(tied(&with_a_child).len(), 1);

    let three =
        [root, ("a.rs", "use crate::{b::{self}, d};"), ("b.rs", "use crate::c::*;"), ("c.rs", "use crate::a as x;")];
    let found = tied(&three);
    assert!(found.len() == 1 && found[0].contains("c -> a"), "{found:?}");

    let none = [
        root,
        ("a.rs", "use crate::b::B; mod tests { use super::f; fn g() { super::super::b::h(); } } fn f() {}"),
        ("b.rs", "use std::fmt; // use crate::a::A;"),
        ("c.rs", "use crate::{a, b};"),
    ];
    assert_eq!(tied(&none), Vec::<String>::new());
}
