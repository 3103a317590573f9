//! What GitHub Actions reads: annotations, and a summary.

use tools::judge::verdict::Verdict;
use tools::report::content::Report;
use tools::report::github::summary::summary;
use tools::report::github::{annotations, failure};

use super::{FAULTY, HOSTILE, SUSPICIOUS, report};

/// A name that ends a property, a command, a line, a cell and a span of code, where it is not escaped.
const MARKS: &str = "a: b,c=100%25\r\n::error::`d` | **e**";

/// What the runner understands of a line: the command, the title and the message, as its `ActionCommand` has them.
fn understood(line: &str) -> [String; 3] {
    let (head, message) = line.strip_prefix("::").and_then(|rest| rest.split_once("::")).expect("a command");
    let (level, properties) = head.split_once(' ').expect("properties");
    let [title] = properties.split(',').collect::<Vec<&str>>()[..] else { panic!("one property: {properties}") };
    let title = title.strip_prefix("title=").expect("the title");
    let plain = |text: &str| text.replace("%0D", "\r").replace("%0A", "\n");
    let title = plain(title).replace("%3A", ":").replace("%2C", ",");
    [level.to_owned(), title, plain(message)].map(|text| text.replace("%25", "%"))
}

/// Of `level`.
fn commands(report: &Report, level: &str) -> Vec<[String; 3]> {
    let text = annotations(std::slice::from_ref(report));
    text.lines().map(understood).filter(|[of, ..]| of == level).collect()
}

#[test]
fn faults_are_errors_and_what_is_suspicious_warns() {
    let report = report();
    let [errors, warnings] = ["error", "warning"].map(|level| commands(&report, level));
    assert_eq!((errors.len(), warnings.len()), (10, 10), "as many as are shown");
    let site = |layer: usize, of: &str| format!("model.layers.{layer}.self_attn.{of}");
    let (norm, output) = (site(FAULTY.start, "q_norm"), site(SUSPICIOUS.start, "o_proj"));
    let command = &report.header.command;
    let fault = format!(
        "12 of 1572864 values outside the error bound\nworst at token 3, channel 261 (channel 5 of head 2): candidate \
         1.500000, reference -0.2500000, allowed ±1.00e-3, ratio 300.0\nreproduce: {command} --sites '{norm}'"
    );
    assert_eq!(errors[0][1..], [format!("parity: models/deep: fault at {norm} under the local lens"), fault]);
    assert_eq!(warnings[0][1], format!("parity: models/deep: suspicious at {output} under the local lens"));
    assert!(warnings[0][2].starts_with("34 of 1572864 values further off than independent roundings explain;"));
    let faults = report.count(Verdict::Fault) + 1;
    assert_eq!(errors[9][1], format!("{} more faults", faults - 9), "one is a token of the decode");
    assert_eq!(warnings[9][1], format!("{} more suspicious sites", report.count(Verdict::Suspicious) - 9));
}

#[test]
fn whatever_a_name_has_stays_in_its_place() {
    let mut report = report();
    report.header.model = MARKS.to_owned();
    report.header.command = format!("parity verify '{MARKS}'");
    let errors = commands(&report, "error");
    assert_eq!(errors.len(), 10, "no name is a command of its own");
    assert!(errors[0][1].starts_with(&format!("parity: {MARKS}: fault at ")), "{errors:?}");
    assert!(errors[0][2].contains(&format!("reproduce: parity verify '{MARKS}' --sites ")), "{errors:?}");
    assert_eq!(understood(&failure(MARKS)), ["error", "parity", MARKS]);
}

#[test]
fn what_fails_a_report_without_a_fault_is_an_error() {
    let mut report = report();
    report.sites.retain(|site| site.verdict != Verdict::Fault);
    report.decode = None;
    assert_eq!(commands(&report, "error").len(), 0);
    report.denied = vec![Verdict::Suspicious];
    let denied = format!("denied: {} suspicious", report.count(Verdict::Suspicious));
    let errors = commands(&report, "error");
    assert_eq!(errors, [["error".to_owned(), "parity: models/deep: fault".to_owned(), denied]]);
}

/// A table's row has a bar before each cell and one behind the last; whatever a cell holds adds none.
#[test]
fn a_summary_tells_the_verdict_and_what_is_wrong() {
    let mut report = report();
    report.header.model = MARKS.to_owned();
    report.header.command = format!("parity verify '{MARKS}'");
    let text = summary(std::slice::from_ref(&report));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("## parity: FAIL"));
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.iter().map(|row| bars(row)).collect::<Vec<usize>>(), [7; 3]);
    assert!(
        rows[2].starts_with("| a\\: b\\,c\\=100\\%25  \\:\\:error\\:\\:\\`d\\` \\| \\*\\*e\\*\\* | "),
        "{}",
        rows[2]
    );
    assert!(!rows[2].contains(HOSTILE) && rows[2].contains("\\<\\/title\\>"), "{}", rows[2]);
    let site = format!("model.layers.{}.self_attn.q_norm", FAULTY.start);
    let fault =
        format!("- **fault** `{site}` under the local lens\n  - 12 of 1572864 values outside the error bound\n");
    assert!(text.contains(&fault), "{text}");
    let again = format!("  - reproduce: `` parity verify 'a: b,c=100%25  ::error::`d` | **e**' --sites '{site}' ``\n");
    assert!(text.contains(&again), "{text}");
    assert!(text.contains("- and 43 more faults\n- **fault** at token "), "{text}");
    assert!(text.ends_with("- and 27 more suspicious sites\n"), "{text}");
}

#[test]
fn a_summary_of_many_reports_stays_small() {
    let reports = vec![report(); 600];
    let text = summary(&reports);
    assert!(text.contains("\nand 100 more reports\n"));
    assert!(text.len() < 1 << 20, "{} bytes", text.len());
}
