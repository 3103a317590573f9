//! Errors of patches and of features, over the images that they are of.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use reference::Site;

use super::levels::levels;
use crate::judge::spread::Spread;
use crate::judge::verdict::SiteReport;
use crate::report::content::Report;

/// The class of what lies over a picture: of a report, a pass and a picture of it.
fn class(number: usize, pass: usize, picture: usize) -> String {
    format!("shown{number}-{pass}-{picture}")
}

/// The pictures, each once.
pub(super) fn backgrounds(number: usize, report: &Report) -> Markup {
    let passes = report.header.shown.iter().enumerate();
    let pictures =
        passes.flat_map(|(pass, shown)| shown.pictures.iter().enumerate().map(move |(i, png)| (pass, i, png)));
    let rules = pictures.map(|(pass, i, png)| {
        format!(".{}{{background-image:url(data:image/png;base64,{})}}", class(number, pass, i), STANDARD.encode(png))
    });
    let rules: String = rules.collect();
    html! { @if !rules.is_empty() { style { (PreEscaped(rules)) } } }
}

/// The largest error of each patch or feature, over the picture.
pub(super) fn over(number: usize, report: &Report, site: &SiteReport, spread: &Spread) -> Markup {
    let Site::Vision(pass, _) = site.site else { return html! {} };
    let laid = report.header.shown.get(pass).map(|shown| shown.laid(&spread.rows)).unwrap_or_default();
    html! {
        @for (i, map) in laid.iter().enumerate() {
            @let (rows, columns) = map.dim();
            figure {
                canvas.heat.over.(class(number, pass, i)) width=(columns * 8) height=(rows * 8) data-rows=(rows)
                    data-columns=(columns) data-levels=(levels(map)) data-dim={ (rows) "," (columns) } data-axes="row,column"
                    role="img" aria-label={ "largest error / bound over picture " (i) } {}
                figcaption { "Largest error / bound of each place, over picture " (i) ". " span.readout {} }
            }
        }
    }
}
