//! The parameters of an operator's launches, and the values that each may have.

use std::collections::BTreeMap;

use optimized::kernel::Kernel;
use optimized::kernel::alternatives::Alternatives;
use optimized::tuning::Launched;

use crate::failure::Failure;

/// A constant of a kernel, with the values that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// The kernel, as the table has it.
    pub kernel: Kernel,
    /// The constant.
    pub constant: &'static str,
    /// Its values, upward.
    pub values: &'static [u32],
}

impl Parameter {
    /// What it is called: `linear.STAGES`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.kernel.op, self.constant)
    }

    /// Its value in the table.
    pub fn default(&self) -> u32 {
        self.kernel.get(self.constant).expect("it was found there")
    }
}

/// A value of each parameter.
pub type Settings = Vec<u32>;

/// The parameters of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// In the order in which kernels are launched, and in which `kernel::alternatives` lists their constants.
    pub parameters: Vec<Parameter>,
}

impl Space {
    /// Of what an operator launches.
    pub fn of(launches: &[Launched]) -> Self {
        let mut entries: Vec<(Kernel, Vec<&str>)> = Vec::new();
        for Launched { kernel, entry, .. } in launches {
            match entries.iter_mut().find(|(known, _)| known == kernel) {
                Some((_, known)) => known.push(entry),
                None => entries.push((*kernel, vec![entry])),
            }
        }
        let parameters = entries.iter().flat_map(|(kernel, entries)| {
            let of_constant =
                |found: Alternatives| Parameter { kernel: *kernel, constant: found.constant, values: found.values };
            Alternatives::of(kernel, entries).into_iter().map(of_constant)
        });
        Space { parameters: parameters.collect() }
    }

    /// As the table has them.
    pub fn defaults(&self) -> Settings {
        self.parameters.iter().map(Parameter::default).collect()
    }

    /// Each kernel, and what is launched instead.
    pub fn variants(&self, settings: &[u32]) -> Vec<(Kernel, Kernel)> {
        let mut variants: Vec<(Kernel, Kernel)> = Vec::new();
        for (parameter, &value) in self.parameters.iter().zip(settings) {
            let known = variants.iter().position(|(kernel, _)| *kernel == parameter.kernel);
            let at = known.unwrap_or_else(|| {
                variants.push((parameter.kernel, parameter.kernel));
                variants.len() - 1
            });
            variants[at].1 = variants[at].1.with(parameter.constant, value).expect("it was found there");
        }
        variants
    }

    /// Values by the parameters' names.
    pub fn named(&self, settings: &[u32]) -> BTreeMap<String, u32> {
        self.parameters.iter().map(Parameter::name).zip(settings.iter().copied()).collect()
    }

    /// The same the other way round; an error names what is not known, or not there.
    pub fn settings(&self, named: &BTreeMap<String, u32>) -> Result<Settings, Failure> {
        let known: Vec<String> = self.parameters.iter().map(Parameter::name).collect();
        if let Some(name) = named.keys().find(|name| !known.contains(name)) {
            return Err(Failure::new(format!("{name}: no parameter of this operator"))
                .help(format!("expected some of {}", known.join(", "))));
        }
        let value = |name: &String| {
            let missing = || Failure::new(format!("{name}: no value is given")).help("the file is damaged: begin anew");
            named.get(name).copied().ok_or_else(missing)
        };
        known.iter().map(value).collect()
    }

    /// `NAME=VALUE,…` over the table's values; a name may be the constant's alone.
    pub fn typed(&self, text: &str) -> Result<Settings, Failure> {
        let names: Vec<String> = self.parameters.iter().map(Parameter::name).collect();
        let mut settings = self.defaults();
        for part in text.split(',') {
            let refused =
                |problem: String| Failure::new(problem).help(format!("expected NAME=VALUE,…, of {}", names.join(", ")));
            let (name, value) = part.split_once('=').ok_or_else(|| refused(format!("{part}: no NAME=VALUE")))?;
            let is_meant = |(i, parameter): &(usize, &Parameter)| names[*i] == name || parameter.constant == name;
            let at = self.parameters.iter().enumerate().find(is_meant).map(|(i, _)| i);
            let at = at.ok_or_else(|| refused(format!("{name}: no parameter of this operator")))?;
            settings[at] = value.parse().map_err(|_| refused(format!("{part}: {value} is no whole number")))?;
        }
        Ok(settings)
    }
}
