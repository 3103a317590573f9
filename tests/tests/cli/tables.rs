//! `--parquet`: the figures of the JSON as a table.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use parquet::basic::{LogicalType, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;
use tools::report::parquet::COLUMNS;

use super::reports::change_values;
use super::{assert_refused, parity};

/// A row by its columns.
type Cells = BTreeMap<String, Field>;

fn read(path: &Path) -> (SerializedFileReader<File>, Vec<Cells>) {
    let reader = SerializedFileReader::new(File::open(path).expect("written")).expect("Parquet");
    let cells = |row: Row| row.get_column_iter().map(|(name, cell)| (name.clone(), cell.clone())).collect();
    let rows = reader.get_row_iter(None).expect("rows").map(|row| cells(row.expect("readable"))).collect();
    (reader, rows)
}

fn text<'c>(cells: &'c Cells, column: &str) -> Option<&'c str> {
    match &cells[column] {
        Field::Str(text) => Some(text),
        _ => None,
    }
}

fn value(cells: &Cells) -> f64 {
    let Field::Double(value) = cells["value"] else { panic!("{cells:?}") };
    value
}

/// The number at a path of the JSON.
fn at(json: &Value, path: &str) -> Option<f64> {
    let step = |value: &'_ Value, name: &str| match value {
        Value::Array(list) => list.get(name.parse::<usize>().ok()?).cloned(),
        other => other.get(name).cloned(),
    };
    path.split('.').try_fold(json.clone(), |value, name| step(&value, name))?.as_f64()
}

#[test]
fn a_report_is_a_row_for_each_figure_of_its_json() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    change_values("m2-gqa3-f32", &folder.path().join("dump.safetensors"), |name, values| {
        if name.ends_with("layers.1.self_attn.q_norm") {
            for x in values.iter_mut() {
                *x *= 1.1;
            }
        }
    });
    let arguments = ["verify", "m2-gqa3-f32", "dump.safetensors", "--json", "r.json", "--parquet", "r.parquet"];
    let ran = parity(folder.path(), &arguments);
    assert_eq!(ran.code, Some(1), "{ran}");
    let json: Value = serde_json::from_slice(&fs::read(folder.path().join("r.json")).expect("written")).expect("JSON");
    let (reader, rows) = read(&folder.path().join("r.parquet"));
    let schema = reader.metadata().file_metadata();
    let columns: Vec<&str> = schema.schema().get_fields().iter().map(|field| field.name()).collect();
    assert_eq!(columns, COLUMNS.map(|(name, _)| name));
    assert_eq!(schema.schema_descr().column(7).logical_type_ref(), Some(&LogicalType::String));
    assert_eq!(schema.schema_descr().column(12).physical_type(), Type::DOUBLE);
    assert_eq!(schema.key_value_metadata().expect("told")[0].value.as_deref(), Some("1"));

    let sites = json["reports"][0]["sites"].as_array().expect("a list");
    let mut compared = 0;
    for cells in rows.iter().filter(|cells| text(cells, "verdict") != Some("missing")) {
        let Field::Long(step) = cells["step"] else { panic!("{cells:?}") };
        let of = |site: &&Value| {
            site["site"] == text(cells, "site").expect("a site")
                && site["lens"] == text(cells, "lens").expect("a lens")
                && site["step"] == step
        };
        let site = sites.iter().find(of).unwrap_or_else(|| panic!("{cells:?}"));
        assert_eq!(site["verdict"], text(cells, "verdict").expect("a verdict"));
        // JSON has no infinity.
        if let Some(told) = at(site, text(cells, "statistic").expect("a statistic")) {
            assert_eq!(told, value(cells), "{cells:?}");
            compared += 1;
        }
    }
    let counts = rows.iter().filter(|cells| text(cells, "statistic") == Some("count") && text(cells, "lens").is_some());
    assert_eq!(counts.count(), sites.len(), "each site has its count");
    assert!(compared > 10 * sites.len(), "{compared} figures of {} sites", sites.len());
    let worst = |cells: &&Cells| {
        text(cells, "statistic") == Some("worst.ratio")
            && text(cells, "verdict") == Some("fault")
            && text(cells, "operator") == Some("self_attn.q_norm")
            && text(cells, "lens") == Some("local")
    };
    let worst: Vec<f64> = rows.iter().filter(worst).map(value).collect();
    assert!(matches!(worst[..], [ratio] if ratio > 1.0), "{worst:?}");
}

#[test]
fn two_dumps_and_an_operator_alone_have_the_same_columns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, factor) in [("a.safetensors", 1.0), ("b.safetensors", 2.0)] {
        change_values("m2-gqa3-f32", &folder.path().join(name), |_, values| {
            for x in values.iter_mut() {
                *x *= factor;
            }
        });
    }
    let arguments = ["diff", "a.safetensors", "b.safetensors", "--json", "d.json", "--parquet", "d.parquet"];
    let ran = parity(folder.path(), &arguments);
    assert_eq!(ran.code, Some(0), "{ran}");
    let json: Value = serde_json::from_slice(&fs::read(folder.path().join("d.json")).expect("written")).expect("JSON");
    let (_, rows) = read(&folder.path().join("d.parquet"));
    let pairs = json["pairs"].as_array().expect("a list");
    let rms: Vec<&Cells> = rows.iter().filter(|cells| text(cells, "statistic") == Some("metrics.rms")).collect();
    assert_eq!(rms.len(), pairs.len());
    for (cells, pair) in rms.into_iter().zip(pairs) {
        assert_eq!((text(cells, "site"), Some(value(cells))), (pair["name"].as_str(), at(pair, "metrics.rms")));
        assert_eq!((text(cells, "candidate"), text(cells, "baseline")), (Some("a.safetensors"), Some("b.safetensors")));
        assert_eq!(cells["lens"], Field::Null);
    }

    let x: Vec<u8> = [3.0_f32, 4.0].into_iter().flat_map(f32::to_le_bytes).collect();
    let mut writer =
        fixtures::activations::writer::DumpWriter::create(&folder.path().join("op.npz")).expect("writable");
    for (name, shape) in [("x", vec![1, 2]), ("w", vec![2]), ("y", vec![1, 2])] {
        let tensor = fixtures::Tensor::new(fixtures::Dtype::F32, shape, x.clone()).expect("two elements");
        writer.write(name, &tensor).expect("writable");
    }
    writer.finish(&fixtures::activations::manifest::Manifest::default()).expect("writable");
    let arguments = ["op", "rms_norm", "op.npz", "--set", "eps=1e-6", "--parquet", "o.parquet"];
    let ran = parity(folder.path(), &arguments);
    assert_eq!(ran.code, Some(1), "{ran}");
    let (_, rows) = read(&folder.path().join("o.parquet"));
    let faults = rows.iter().find(|cells| text(cells, "statistic") == Some("faults")).expect("a row");
    assert_eq!((text(faults, "operator"), text(faults, "site")), (Some("rms_norm"), Some("y")));
    assert_eq!((text(faults, "verdict"), value(faults)), (Some("fault"), 2.0));
}

#[test]
fn a_table_is_refused_where_it_is_another_file_or_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let same = parity(folder.path(), &["verify", "m2-gqa3-f32", "--json", "one", "--parquet", "one"]);
    assert_refused(&same, &["--json one and --parquet one are the same file"]);
    let nowhere = parity(folder.path(), &["verify", "m2-gqa3-f32", "--parquet", "no/where"]);
    assert_eq!(nowhere.code, Some(2), "{nowhere}");
    assert!(nowhere.stdout.is_empty() && fs::read_dir(folder.path()).expect("there").next().is_none(), "{nowhere}");
}
