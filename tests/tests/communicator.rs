//! `optimized/src/communicator`.

use std::thread;

use half::bf16;
use ndarray::Array2;
use optimized::communicator::Communicator;
use optimized::communicator::local::Local;
use optimized::communicator::members::open;
use optimized::communicator::nccl::Nccl;
use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::Form;
use optimized::error::Error;
use tests::device::emulated;

fn filled(gpu: &Gpu, value: f32) -> optimized::tensor::Matrix<bf16> {
    gpu.upload(Array2::from_elem((2, 3), bf16::from_f32(value)).view()).expect("memory")
}

/// Does something as each rank of a group, in a thread of its own.
fn each<T: Send>(count: usize, work: impl Fn(&Gpu, &dyn Communicator) -> T + Sync) -> Vec<T> {
    let members = open(DeviceChoice::Emulated(Form::Fast), count).expect("the emulated device");
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> =
            members.iter().map(|member| scope.spawn(move || work(&member.gpu, &*member.communicator))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Sums follow one another, of whole numbers in both types: every rank gets each of them.
#[test]
fn every_rank_gets_every_sum() {
    let found = each(5, |gpu, ranks| {
        assert_eq!(ranks.size(), 5);
        let own = ranks.rank() as f32;
        (0..20)
            .map(|round| {
                let scale = round as f32;
                let narrow = ranks.all_reduce(gpu, filled(gpu, own * scale)).expect("all are there");
                let wide = gpu.upload(Array2::from_elem((1, 2), own + 0.25).view()).expect("memory");
                let wide = ranks.all_reduce_f32(gpu, wide).expect("all are there");
                (gpu.download(&narrow).expect("memory")[[1, 2]].to_f32(), gpu.download(&wide).expect("memory")[[0, 1]])
            })
            .collect::<Vec<_>>()
    });
    let want: Vec<(f32, f32)> = (0..20).map(|round| (10.0 * round as f32, 11.25)).collect();
    assert!(found.iter().all(|found| *found == want), "{found:?}");
}

/// 256 + 1 + 1 is 256 where each sum is rounded to bf16: the order is the ranks', whoever comes first.
#[test]
fn sums_are_in_the_order_of_ranks() {
    for _ in 0..10 {
        let found = each(3, |gpu, ranks| {
            let sum =
                ranks.all_reduce(gpu, filled(gpu, if ranks.rank() == 0 { 256.0 } else { 1.0 })).expect("all are there");
            gpu.download(&sum).expect("memory")[[0, 0]].to_f32()
        });
        assert_eq!(found, [256.0; 3]);
    }
}

/// A rank that ends it instead of coming.
#[test]
fn a_rank_that_waits_is_told_of_the_end() {
    let found = each(3, |gpu, ranks| {
        if ranks.rank() == 1 {
            ranks.abort();
            return String::new();
        }
        ranks.all_reduce(gpu, filled(gpu, 1.0)).expect_err("one is missing").to_string()
    });
    assert_eq!(found[0], "rank 0: another rank of its group stopped");
    assert_eq!(found[2], "rank 2: another rank of its group stopped");
}

#[test]
fn parts_are_of_one_type_and_one_shape() {
    let said = each(2, |gpu, ranks| {
        if ranks.rank() == 0 {
            return ranks.all_reduce(gpu, filled(gpu, 1.0)).map(|_| ()).expect_err("another type").to_string();
        }
        let other = gpu.zeros((2, 3)).expect("memory");
        ranks.all_reduce_f32(gpu, other).map(|_| ()).expect_err("another type").to_string()
    });
    assert_eq!(said, ["communicator C1: parts of one type = 1, expected 2"; 2].map(str::to_owned));
    let said = each(2, |gpu, ranks| {
        let part = gpu.zeros((2, 3 + ranks.rank())).expect("memory");
        ranks.all_reduce(gpu, part).map(|_| ()).expect_err("another shape").to_string()
    });
    assert!(said.iter().all(|said| said.starts_with("all_reduce C2")), "{said:?}");
}

/// One rank needs no other.
#[test]
fn one_rank_has_the_sum() {
    let gpu = emulated(Form::Fast);
    let ranks = Local::group(1);
    let sum = ranks[0].all_reduce(&gpu, filled(&gpu, 0.5)).expect("it is there");
    assert_eq!(gpu.download(&sum).expect("memory")[[0, 0]].to_f32(), 0.5);
}

/// Without NCCL, nothing panics, and what to do is said; and where it is, the emulated device is none of its GPUs.
#[test]
fn a_missing_nccl_is_an_error() {
    let gpu = [emulated(Form::Fast)];
    match Nccl::group(&gpu).map(|_| ()).expect_err("no GPU") {
        error @ Error::NoNccl { .. } => {
            let said = error.to_string();
            assert!(said.starts_with("NCCL was not found, by which 1 ranks"), "{said}");
            assert!(said.contains("libnccl.so"), "{said}");
        }
        other => assert_eq!(other.to_string(), "communicator C2: GPUs = 0, expected 1"),
    }
}
