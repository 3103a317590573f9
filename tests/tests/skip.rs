//! What may be skipped, and what may not.

use tests::skip::Need;

#[test]
fn only_what_is_named_may_be_lacking() {
    for (allowed, nvrtc, browser) in
        [("", false, false), ("nvrtc", true, false), ("browser", false, true), ("nvrtc, browser", true, true)]
    {
        assert_eq!((Need::Nvrtc.may_lack(allowed), Need::Browser.may_lack(allowed)), (nvrtc, browser), "{allowed:?}");
    }
}

#[test]
#[should_panic(expected = r#"PARITY_ALLOW_SKIP = "nvcc", expected names among nvrtc, browser"#)]
fn another_name_is_an_error() {
    Need::Nvrtc.may_lack("nvcc");
}
