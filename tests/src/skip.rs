//! What a test needs and a machine may lack: without it the test fails, unless the environment allows to skip it by name.

use std::env;

/// Names the needs that may be lacking, with commas between them.
const ALLOWED: &str = "PARITY_ALLOW_SKIP";

/// A program or a library that is no part of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// NVIDIA's compiler of kernels.
    Nvrtc,
    /// A Chromium.
    Browser,
}

impl Need {
    const ALL: [Need; 2] = [Need::Nvrtc, Need::Browser];

    fn name(self) -> &'static str {
        match self {
            Need::Nvrtc => "nvrtc",
            Need::Browser => "browser",
        }
    }

    /// A sentence on what is not done for want of it, if that is allowed.
    ///
    /// # Panics
    /// Otherwise.
    #[must_use]
    pub fn lacking(self, not_done: &str) -> String {
        let (name, allowed) = (self.name(), env::var(ALLOWED).unwrap_or_default());
        assert!(self.may_lack(&allowed), "{not_done}\nhelp: install it, or skip this by {ALLOWED}={name}");
        format!("skipped, as {ALLOWED} allows: {not_done}")
    }

    /// Whether a list of names has it.
    ///
    /// # Panics
    /// If there is a name that is none.
    pub fn may_lack(self, allowed: &str) -> bool {
        let names: Vec<&str> = allowed.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let known = Need::ALL.map(Need::name);
        let unknown = names.iter().find(|name| !known.contains(name));
        assert!(unknown.is_none(), "{ALLOWED} = {allowed:?}, expected names among {}", known.join(", "));
        names.contains(&self.name())
    }
}
