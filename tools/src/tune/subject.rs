//! An operator on a device: its candidates are proved on the emulated device's checked form, and evaluated on the device.

use std::collections::HashSet;
use std::env;
use std::process::Command;

use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::{self, Form, Schedule, with_schedule};
use optimized::error::Error;
use optimized::kernel::alternatives::why_not;
use optimized::kernel::{Kernel, Sources};
use optimized::timing::Repeats;
use optimized::tuning::Launched;

use super::cost::{Cost, Launch, Limit, cost};
use super::evolve::{Proof, Subject};
use super::prove::{NoTrial, trial};
use super::registers::Registers;
use super::space::Space;
use crate::bench::device::OnDevice;
use crate::bench::operators::Work;
use crate::failure::Failure;

/// How a candidate is evaluated.
#[derive(Debug)]
pub enum Measure {
    /// By the cost model, on the emulated device's counting form.
    Model(Registers),
    /// Timed on a GPU; candidates are proved by the program itself, run again with these arguments and `--prove`.
    Time(Repeats, Vec<String>),
}

/// An operator at its size, and its kernels.
#[derive(Debug)]
pub struct Tuned {
    on_device: OnDevice,
    work: Work,
    space: Space,
    measure: Measure,
    /// Where candidates are proved; none in a process that drives a GPU.
    checked: Option<Gpu>,
    /// Variants that were compiled for the emulated device.
    compiled: HashSet<Kernel>,
}

/// Orders of threads and blocks in which candidates are proved.
const SCHEDULES: [Schedule; 3] = [Schedule::Forward, Schedule::Reverse, Schedule::Adversarial(1)];

impl Tuned {
    /// What a work launches, with its parameters. Refused if there are none.
    pub fn new(on_device: OnDevice, (work, name): (Work, &str), measure: Measure) -> Result<Self, Failure> {
        let launches = on_device.gpu().launches(|| on_device.run(work))?;
        let space = Space::of(&launches);
        if space.parameters.is_empty() {
            return Err(Failure::new(format!("{name}: no parameter to tune")).help(unchangeable(&launches)));
        }
        let checked = match measure {
            Measure::Model(_) => Some(Gpu::open(DeviceChoice::Emulated(Form::Checked))?),
            Measure::Time(..) => None,
        };
        Ok(Tuned { on_device, work, space, measure, checked, compiled: HashSet::new() })
    }

    /// How candidates are scored, in words.
    pub fn measure(&self) -> String {
        match &self.measure {
            Measure::Model(registers) => format!("a cost model, not time; registers {}", registers.source()),
            Measure::Time(..) => "measured time".to_owned(),
        }
    }

    /// Whether candidates are proved in another process.
    pub fn proves_elsewhere(&self) -> bool {
        self.checked.is_none()
    }

    /// Launches what the settings say, from now on.
    fn install(&self, settings: &[u32]) {
        for (kernel, variant) in self.space.variants(settings) {
            self.on_device.gpu().launch_instead(&kernel, variant);
            if let Some(checked) = &self.checked {
                checked.launch_instead(&kernel, variant);
            }
        }
    }

    /// Compiles a variant once for both emulated forms.
    fn compile(&mut self, kernel: &Kernel, variant: &Kernel) -> Result<(), Error> {
        let Some(checked) = &self.checked else { return Ok(()) };
        if kernel == variant || !self.compiled.insert(*variant) {
            return Ok(());
        }
        let image = emulated::compile(variant, &Sources::embedded(), Form::Checked)?;
        checked.replace_by_image(variant, &image)?;
        self.on_device.gpu().replace_by_image(variant, &image)
    }

    /// On the emulated device's checked form, in several orders of threads and blocks.
    fn prove_here(&mut self, settings: &[u32]) -> Result<Proof, Failure> {
        self.install(settings);
        for (kernel, variant) in self.space.variants(settings) {
            if let Some(why) = why_not(&variant) {
                return Ok(Proof::Impossible(why));
            }
            match self.compile(&kernel, &variant) {
                Ok(()) => {}
                Err(Error::Compile { log, .. }) if log.contains("needs a C++ compiler") => {
                    return Err(Failure::new(log));
                }
                Err(error) => return Ok(Proof::Impossible(first_lines(&error))),
            }
            let Some(checked) = &self.checked else { continue };
            for schedule in SCHEDULES {
                match with_schedule(schedule, || trial(checked, &kernel, &variant))? {
                    Ok(trial) => {
                        if let Some(difference) = trial.difference() {
                            return Ok(Proof::Wrong(format!("{}: {difference}", variant.label())));
                        }
                    }
                    Err(NoTrial::Device(error @ Error::Fault { .. })) => return Ok(Proof::Wrong(first_lines(&error))),
                    Err(error) => return Ok(Proof::Impossible(first_lines(&error))),
                }
            }
        }
        Ok(Proof::Right)
    }

    /// In a process of its own, because one drives one device.
    fn prove_elsewhere(&self, arguments: &[String], settings: &[u32]) -> Result<Proof, Failure> {
        let named = self.space.named(settings);
        let typed: Vec<String> = named.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let program = env::current_exe().map_err(|error| Failure::new(format!("this program: {error}")))?;
        let ran = Command::new(program).args(arguments).args(["--prove", &typed.join(",")]).output();
        let ran = ran.map_err(|error| Failure::new(format!("proving {}: {error}", typed.join(","))))?;
        let said = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        match ran.status.code() {
            Some(0) => Ok(Proof::Right),
            Some(1) => Ok(Proof::Wrong(said)),
            _ => Err(Failure::new(String::from_utf8_lossy(&ran.stderr).trim().to_owned())),
        }
    }
}

impl Subject for Tuned {
    fn space(&self) -> &Space {
        &self.space
    }

    fn prove(&mut self, settings: &[u32]) -> Result<Proof, Failure> {
        match &self.measure {
            Measure::Model(_) => self.prove_here(settings),
            Measure::Time(_, arguments) => self.prove_elsewhere(arguments, settings),
        }
    }

    fn evaluate(&mut self, settings: &[u32]) -> Result<Result<Cost, String>, Failure> {
        self.install(settings);
        let Tuned { on_device, work, measure, .. } = self;
        match measure {
            Measure::Model(registers) => {
                let launches = match on_device.gpu().launches(|| on_device.run(*work)) {
                    Ok(launches) => launches,
                    Err(error) => return Ok(Err(first_lines(&error))),
                };
                let mut modelled = Vec::new();
                for launched in &launches {
                    match registers.of(&launched.kernel, &launched.entry)? {
                        Ok(registers) => modelled.push(Launch::of(launched, registers)),
                        Err(why) => return Ok(Err(why)),
                    }
                }
                Ok(cost(&modelled).ok_or_else(|| "no multiprocessor has room for a block".to_owned()))
            }
            Measure::Time(repeats, _) => {
                let times = match on_device.gpu().time(*repeats, || on_device.run(*work)) {
                    Ok(times) => times,
                    Err(error) => return Ok(Err(first_lines(&error))),
                };
                let median = times.get(times.len() / 2).copied();
                Ok(median.map(|microseconds| Cost { microseconds, limit: Limit::Time }).ok_or("no time".to_owned()))
            }
        }
    }
}

/// The beginning of what a compiler or a device says.
fn first_lines(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().take(2).collect::<Vec<_>>().join(" ")
}

/// Why kernels have no parameters.
fn unchangeable(launches: &[Launched]) -> String {
    let mut labels: Vec<String> = launches.iter().map(|launched| launched.kernel.label()).collect();
    labels.dedup();
    format!(
        "it launches {}; a constant that decides the order of a sum, or that follows from the model, has one value: \
         `optimized/src/kernel/alternatives.rs` lists the others",
        labels.join(", ")
    )
}
