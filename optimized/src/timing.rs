//! How long work takes on a device whose caches hold none of its operands.
//!
//! A graph has the work several times, and before each time a buffer larger than the second-level cache is read; another graph
//! has the reading alone. The work takes the difference of their times. Were the buffer written, its lines would have to go back
//! to memory while the work reads its operands, which on an H100 takes a fifth more time.

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaEvent, CudaGraph, CudaSlice};
use half::bf16;

use crate::device::Gpu;
use crate::error::Error;
use crate::ops::sampling::argmax_there;
use crate::tensor::Matrix;

/// How often things are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    /// Times that the work is in a graph.
    pub in_graph: usize,
    /// Replays of the graphs that are not timed.
    pub warm_ups: usize,
    /// Replays that are.
    pub replays: usize,
    /// Bytes that are read before the work; of the second-level cache's size, twice.
    pub flushed_bytes: usize,
}

/// What a device says of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Their clock, in Hz.
    pub clock: f64,
    /// What its memory gives at most, in bytes a second.
    pub bandwidth: f64,
    /// Its second-level cache, in bytes.
    pub cache_bytes: usize,
    /// Compute capability.
    pub capability: (i32, i32),
}

impl Gpu {
    /// What the device says of itself.
    pub fn limits(&self) -> Result<Limits, Error> {
        let context = self.stream().context();
        let attribute = |which| {
            let value = self.outcome(context.attribute(which), || "asking for the device's limits".to_owned())?;
            Ok::<_, Error>(u32::try_from(value).unwrap_or(0))
        };
        let transfers = 2.0 * f64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?) * 1e3;
        let bits = attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        Ok(Limits {
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            clock: f64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?) * 1e3,
            bandwidth: transfers * f64::from(bits) / 8.0,
            cache_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
            capability: self.capability(),
        })
    }

    /// Microseconds that `work` takes, of each replay, from the smallest to the largest.
    pub fn time(&self, repeats: Repeats, mut work: impl FnMut() -> Result<(), Error>) -> Result<Vec<f64>, Error> {
        let flushed = self.zeros((1, (repeats.flushed_bytes / size_of::<bf16>()).max(1)))?;
        // Functions are loaded before anything is captured.
        self.flush(&flushed)?;
        work()?;
        self.synchronize()?;
        let both = self.captured(|| {
            for _ in 0..repeats.in_graph {
                self.flush(&flushed)?;
                work()?;
            }
            Ok(())
        })?;
        let flushing = self.captured(|| (0..repeats.in_graph).try_for_each(|_| self.flush(&flushed)))?;
        for _ in 0..repeats.warm_ups {
            self.replay(&both)?;
            self.replay(&flushing)?;
        }
        let mut flushes = Vec::with_capacity(repeats.replays);
        let mut all = Vec::with_capacity(repeats.replays);
        for _ in 0..repeats.replays {
            all.push(self.replay(&both)?);
            flushes.push(self.replay(&flushing)?);
        }
        flushes.sort_by(f64::total_cmp);
        let without = flushes.get(flushes.len() / 2).copied().unwrap_or(0.0);
        let mut times: Vec<f64> = all.iter().map(|time| (time - without) / repeats.in_graph as f64).collect();
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    /// Bytes a second of a copy within the device's memory, read and written: the best of several.
    pub fn copy_rate(&self, bytes: usize) -> Result<f64, Error> {
        let from = self.bytes(bytes)?;
        let mut to = self.bytes(bytes)?;
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let begin = self.event()?;
            self.outcome(self.stream().memcpy_dtod(&from, &mut to), || format!("copying {bytes} bytes"))?;
            best = best.min(self.since(&begin)?);
        }
        Ok(2.0 * bytes as f64 / (best / 1e6))
    }

    fn bytes(&self, count: usize) -> Result<CudaSlice<u8>, Error> {
        self.outcome(self.stream().alloc_zeros(count.max(1)), || format!("allocating {count} bytes"))
    }

    /// Reads all values, and leaves of what the cache had no more than that.
    fn flush(&self, values: &Matrix<bf16>) -> Result<(), Error> {
        argmax_there(self, values).map(drop)
    }

    /// What `work` launches, as a graph.
    fn captured(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<CudaGraph, Error> {
        let what = || "capturing a graph".to_owned();
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.outcome(self.stream().begin_capture(mode), what)?;
        let worked = work();
        let free_what_is_left = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = self.stream().end_capture(free_what_is_left);
        worked?;
        let graph = self.outcome(graph, what)?;
        graph.ok_or(Error::NoWork)
    }

    /// Microseconds of a replay.
    fn replay(&self, graph: &CudaGraph) -> Result<f64, Error> {
        let begin = self.event()?;
        self.outcome(graph.launch(), || "replaying a graph".to_owned())?;
        self.since(&begin)
    }

    fn event(&self) -> Result<CudaEvent, Error> {
        let event = self.stream().record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        self.outcome(event, || "recording an event".to_owned())
    }

    fn since(&self, begin: &CudaEvent) -> Result<f64, Error> {
        let end = self.event()?;
        self.synchronize()?;
        let milliseconds = self.outcome(begin.elapsed_ms(&end), || "timing".to_owned())?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}
