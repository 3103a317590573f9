//! A whole model, whichever warps and blocks go first.

use optimized::emulated::{Form, Schedule, with_schedule};
use tests::device::emulated;

use crate::invariance::{at_once, config, demand_equal, logits, model, prompt, weights};

const SCHEDULES: [Schedule; 4] =
    [Schedule::Forward, Schedule::Reverse, Schedule::Adversarial(1), Schedule::Adversarial(2)];

/// In passes of 40, 1 and 29 tokens, so that every kernel is launched in every way that suits it.
#[test]
fn every_schedule_and_form_gives_the_same_bits() {
    let config = config(300);
    let (weights, tokens) = (weights(&config), prompt(70, 300, 2));
    let right = at_once(&model(emulated(Form::Fast), &config, &weights), &tokens);
    for form in [Form::Fast, Form::Checked] {
        let model = model(emulated(form), &config, &weights);
        for schedule in SCHEDULES {
            let got = with_schedule(schedule, || logits(&model, &tokens, [40, 1]));
            demand_equal(&got, right.view(), &format!("{form:?} {schedule:?}"));
        }
    }
}
