//! Ranks of one process that share a device: each hands its part to the others, and adds up all of them with our own kernel, in
//! the order of ranks, so that all have the same bits in every run.

use std::any::Any;
use std::fmt::{Debug, Formatter};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use half::bf16;
use reference::contract::require;

use super::Communicator;
use crate::device::Gpu;
use crate::error::Error;
use crate::ops::all_reduce::{all_reduce, all_reduce_f32};
use crate::tensor::{Element, Matrix};

/// One of them.
#[derive(Debug)]
pub struct Local {
    rank: usize,
    meeting: Arc<Meeting>,
}

/// Where ranks meet to hand over their parts.
#[derive(Debug)]
struct Meeting {
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// Adds up parts.
type Sum<T> = fn(&Gpu, &[&Matrix<T>]) -> Result<Matrix<T>, Error>;

/// A matrix of any type.
type Part = Arc<dyn Any + Send + Sync>;

#[derive(Default)]
struct State {
    /// What ranks brought that wait for others.
    brought: Vec<Option<Part>>,
    /// What all brought last.
    all: Vec<Part>,
    /// How often all were there.
    rounds: usize,
    is_over: bool,
}

impl Debug for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("rounds", &self.rounds).field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl Local {
    /// R ranks.
    pub fn group(size: usize) -> Vec<Self> {
        let state = State { brought: vec![None; size], ..State::default() };
        let meeting = Arc::new(Meeting { size, state: Mutex::new(state), changed: Condvar::new() });
        (0..size).map(|rank| Local { rank, meeting: Arc::clone(&meeting) }).collect()
    }

    /// What `sum` makes of all ranks' parts.
    ///
    /// C1: all bring matrices of one type.
    fn summed<T: Element + 'static>(&self, gpu: &Gpu, part: Matrix<T>, sum: Sum<T>) -> Result<Matrix<T>, Error> {
        // Another rank's stream is about to read it.
        gpu.synchronize()?;
        let all = self.meeting.exchange(self.rank, Arc::new(part))?;
        let parts: Vec<&Matrix<T>> = all.iter().filter_map(|part| part.downcast_ref()).collect();
        require(parts.len() == all.len(), "communicator C1", "parts of one type", parts.len(), all.len())?;
        let y = sum(gpu, &parts)?;
        // The last who has read a part frees it.
        gpu.synchronize()?;
        Ok(y)
    }
}

impl Communicator for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.meeting.size
    }

    fn all_reduce(&self, gpu: &Gpu, part: Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
        self.summed(gpu, part, all_reduce)
    }

    fn all_reduce_f32(&self, gpu: &Gpu, part: Matrix<f32>) -> Result<Matrix<f32>, Error> {
        self.summed(gpu, part, all_reduce_f32)
    }

    fn abort(&self) {
        self.meeting.state.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.meeting.changed.notify_all();
    }
}

impl Meeting {
    /// The parts of all ranks in their order, once all are here.
    fn exchange(&self, rank: usize, part: Part) -> Result<Vec<Part>, Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let round = state.rounds;
        state.brought[rank] = Some(part);
        if state.brought.iter().all(Option::is_some) {
            state.all = state.brought.iter_mut().filter_map(Option::take).collect();
            state.rounds += 1;
            self.changed.notify_all();
        }
        let waiting = |state: &mut State| state.rounds == round && !state.is_over;
        let state = self.changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner);
        if state.rounds == round {
            return Err(Error::Stopped { rank });
        }
        Ok(state.all.clone())
    }
}
