//! Dumps of several requests as engines lay them out, of what the reference computes of each request alone. What is padding,
//! or another request's key, is NaN: whoever reads it is found out.

use std::path::Path;

use fixtures::Tensor;
use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::rows::stated::StatedCall;
use fixtures::activations::rows::{Call, Request, requests, stated};
use fixtures::activations::writer::DumpWriter;
use fixtures::names::at::At;
use ndarray::Array2;
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::site::{Extent, NONE};
use reference::{LayerSite, RoundingContract, Site, Storage};
use serde_json::{Value, json};
use tools::judge::candidate::{Candidate, Live};
use tools::session::model::Model;

use tests::mistaken::computed;

/// How a tensor of a call's rows lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Lists of slots have an axis.
    Batch,
    /// All slots behind one another.
    Flat,
    /// Heads before slots.
    HeadsFirst,
    /// Slots and heads behind one another.
    HeadsFlat,
    /// The last slot of each request alone.
    Last,
    /// The slots of each list whose logits alone the call states.
    Kept,
    /// What is one for all heads has an axis of 1 for them.
    OneHead,
    /// Not dumped.
    Absent,
}

/// A dump that is to be made.
pub(super) struct Laid<'a> {
    /// The model.
    pub(super) model: &'a Model,
    /// What goes into it.
    pub(super) calls: Vec<Value>,
    /// How a site lies in a call.
    pub(super) form: &'a dyn Fn(usize, Site) -> Form,
    /// Changes a value of a request at a position.
    pub(super) change: &'a dyn Fn(usize, usize, Site, &mut f64),
    /// Slots of the cache beyond those that are taken.
    pub(super) beyond: usize,
    /// Whether the manifest states the calls.
    pub(super) states: bool,
}

/// The calls that these manifests' texts state.
fn stated_calls(calls: &[Value]) -> Vec<Call> {
    let read = |call: &Value| serde_json::from_value::<StatedCall>(call.clone()).expect("a call");
    stated::calls(&calls.iter().map(read).collect::<Vec<_>>()).expect("the calls fit")
}

/// What a request's rows of one pass are, site by site.
struct Part<'a> {
    request: &'a Request,
    pass: usize,
    live: Live,
}

impl Laid<'_> {
    /// Writes the dump into a folder.
    pub(super) fn write(&self, folder: &Path) -> Dump {
        let calls = stated_calls(&self.calls);
        let requests = requests(&calls).expect("the calls are of requests");
        let path = folder.join("dump.safetensors");
        let mut writer = DumpWriter::create(&path).expect("writable");
        let semantics = self.model.semantics().expect("it is known");
        let decoder = Decoder::new(self.model.checkpoint.config(), semantics, &self.model.checkpoint).expect("it fits");
        for (number, call) in calls.iter().enumerate() {
            let mut parts: Vec<Part<'_>> = Vec::new();
            for request in &requests {
                let passes = request.passes.iter().enumerate().filter(|(_, pass)| pass.call == number);
                let passes = passes.map(|(pass, _)| pass);
                parts.extend(passes.map(|pass| {
                    let live = computed(&decoder, &fed(request, pass), RoundingContract::EAGER_F32);
                    Part { request, pass, live }
                }));
            }
            for site in sites(decoder.config()) {
                let form = (self.form)(number, site);
                if form != Form::Absent {
                    let tensor = self.tensor(call, &parts, site, form, decoder.config());
                    writer.write(&At { step: number, site }.to_string(), &tensor).expect("writable");
                }
            }
        }
        let mut manifest = Manifest { precision: Some("eager_f32".into()), ..Manifest::default() };
        if self.states {
            let calls = self.calls.iter().map(|call| serde_json::from_value(call.clone()).expect("a call"));
            manifest.calls = calls.collect();
        }
        manifest.semantics = Some(semantics.to_string());
        writer.finish(&manifest).expect("writable");
        Dump::open(&path).expect("it was just written")
    }

    fn tensor(&self, call: &Call, parts: &[Part<'_>], site: Site, form: Form, config: &Config) -> Tensor<'static> {
        let by_head = site.token_axis(config) == Some(1) || form == Form::OneHead;
        let (shape, values) = if by_head {
            self.of_keys(call, parts, site, config)
        } else {
            self.of_tokens(call, parts, site, form, config)
        };
        let values = values.into_iter().map(|x| if site.is_choice() && x.is_nan() { -7.0 } else { x });
        Tensor::stored(Storage::Real, shape, values).expect("as many as the shape has")
    }

    /// \[batch, width, …\], then laid out otherwise.
    fn of_tokens(
        &self,
        call: &Call,
        parts: &[Part<'_>],
        site: Site,
        form: Form,
        config: &Config,
    ) -> (Vec<usize>, Vec<f64>) {
        let behind = site.shape(config, Extent::new(1, 1)).split_off(1);
        let (wide, slots): (usize, usize) = (behind.iter().product(), call.batch * call.width);
        let mut rows = vec![vec![f64::NAN; wide]; slots];
        for Part { request, pass, live } in parts {
            let own = &request.passes[*pass];
            let all = values(live, site, fed(request, *pass).len());
            let each = all.nrows() / fed(request, *pass).len();
            for (token, &row) in own.rows.iter().enumerate() {
                let first = (own.first + token) * each;
                rows[row] = (first..first + each).flat_map(|row| all.row(row).to_vec()).collect();
                rows[row].iter_mut().for_each(|x| (self.change)(request.id, own.first + token, site, x));
            }
        }
        let whole = |tokens: &[usize]| [tokens, &behind].concat();
        let channels = site.head_dim(config);
        let heads = wide / channels;
        match form {
            Form::Batch => (whole(&[call.batch, call.width]), rows.concat()),
            Form::Flat => (whole(&[slots]), rows.concat()),
            Form::HeadsFlat => (vec![slots * heads, channels], rows.concat()),
            Form::Last => {
                let ends = call.segments.iter().map(|segment| segment.start + segment.slots.len() - 1);
                (whole(&[call.segments.len()]), ends.flat_map(|row| rows[row].clone()).collect())
            }
            Form::Kept => {
                let kept = call.kept.as_ref().expect("the call says which");
                let all = (0..call.batch).flat_map(|list| kept.iter().map(move |slot| list * call.width + slot));
                (whole(&[call.batch, kept.len()]), all.flat_map(|row| rows[row].clone()).collect())
            }
            Form::HeadsFirst => {
                let mut values = Vec::with_capacity(slots * wide);
                for list in rows.chunks(call.width) {
                    for head in 0..heads {
                        for row in list {
                            values.extend(&row[head * channels..(head + 1) * channels]);
                        }
                    }
                }
                (vec![call.batch, heads, call.width, channels], values)
            }
            Form::OneHead | Form::Absent => unreachable!("it is of keys, or not dumped"),
        }
    }

    /// \[batch, heads, width, keys\].
    fn of_keys(&self, call: &Call, parts: &[Part<'_>], site: Site, config: &Config) -> (Vec<usize>, Vec<f64>) {
        let taken = parts.iter().flat_map(|part| &part.request.passes[part.pass].keys).max().map_or(0, |key| key + 1);
        let slots = taken.max(call.width) + self.beyond;
        let shape = site.shape(config, Extent::new(call.width, slots));
        let [heads, columns] = if let [heads, _, columns] = shape[..] { [heads, columns] } else { [1, shape[1]] };
        let is_token =
            matches!(site, Site::Layer(_, LayerSite::Scores | LayerSite::Probabilities | LayerSite::TokenScores));
        let nothing = if matches!(site, Site::Layer(_, LayerSite::Blocks)) { -1.0 } else { f64::NAN };
        let mut out = vec![nothing; call.batch * heads * call.width * columns];
        for Part { request, pass, live } in parts {
            let own = &request.passes[*pass];
            let (positions, run) = (own.first + own.tokens.len(), fed(request, *pass).len());
            let all = values(live, site, run);
            let visible = if is_token { positions } else { columns };
            for head in 0..heads {
                for (token, &row) in own.rows.iter().enumerate() {
                    let start =
                        (row / call.width * heads * call.width + head * call.width + row % call.width) * columns;
                    let from = all.row(head * run + own.first + token);
                    for (column, &x) in from.iter().enumerate().take(visible) {
                        let place = if is_token { own.keys[column] } else { column };
                        out[start + place] = x;
                        (self.change)(request.id, own.first + token, site, &mut out[start + place]);
                    }
                }
            }
        }
        (vec![call.batch, heads, call.width, columns], out)
    }
}

/// The tokens that a pass is computed with: all of the request's, so that what is kept of one pass is what the next one reads,
/// unless the pass has drafts that are rejected later.
fn fed(request: &Request, pass: usize) -> Vec<u32> {
    let (own, all) = (after(request, pass), request.tokens());
    if all.starts_with(&own) { all } else { own }
}

/// The tokens that a request has after a pass.
fn after(request: &Request, pass: usize) -> Vec<u32> {
    let mut tokens = Vec::new();
    for pass in &request.passes[..=pass] {
        tokens.truncate(pass.first);
        tokens.extend(&pass.tokens);
    }
    tokens
}

/// A live value, choices among them.
fn values(live: &Live, site: Site, tokens: usize) -> Array2<f64> {
    let (at, extent) = (At { step: 0, site }, Extent::new(tokens, tokens));
    if site.is_choice() {
        let chosen = live.choices(at, extent).expect("it was captured");
        return chosen.mapv(|choice| if choice == NONE { -1.0 } else { choice as f64 });
    }
    live.matrix(at, extent).expect("it was captured")
}

/// Every site of a model that hooks or captures show.
fn sites(config: &Config) -> Vec<Site> {
    let inside = (0..config.num_hidden_layers)
        .flat_map(|layer| LayerSite::ALL.map(|site| Site::Layer(layer, site)))
        .filter(|site| site.exists(config) && !site.on_request());
    let before = [Site::Embedding, Site::RopeCos, Site::RopeSin];
    before.into_iter().chain(inside).chain([Site::FinalNorm, Site::LmHead, Site::Logits]).collect()
}

/// Prompts side by side, padded on the left or on the right.
pub(super) fn padded(prompts: &[&[u32]], left: bool) -> Value {
    let width = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0);
    let list = |own: Vec<u32>| {
        let padding = vec![0; width - own.len()];
        if left { [padding, own].concat() } else { [own, padding].concat() }
    };
    let tokens: Vec<Vec<u32>> = prompts.iter().map(|prompt| list(prompt.to_vec())).collect();
    let mask: Vec<Vec<u32>> = prompts.iter().map(|prompt| list(vec![1; prompt.len()])).collect();
    json!({ "tokens": tokens, "mask": mask })
}

/// A token of each request.
pub(super) fn one_each(tokens: &[u32]) -> Value {
    json!({ "tokens": tokens.iter().map(|token| [token]).collect::<Vec<_>>() })
}

/// The second call of a dump as a dump of its own, as an engine writes it that had the first in its cache.
pub(super) fn second_call(dump: &Dump, call: &Value, folder: &Path) -> Dump {
    let path = folder.join("second.safetensors");
    let mut writer = DumpWriter::create(&path).expect("writable");
    for name in dump.names() {
        if let (1, path) = At::split(name) {
            writer.write(path, &dump.tensor(name).expect("it is there")).expect("writable");
        }
    }
    let calls = vec![serde_json::from_value(call.clone()).expect("a call")];
    let manifest = dump.manifest().expect("it has one").clone();
    writer.finish(&Manifest { calls, ..manifest }).expect("writable");
    Dump::open(&path).expect("it was just written")
}
