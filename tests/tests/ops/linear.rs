//! smoke
use half::bf16;
use ndarray::Array2;
use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::{self, Form};
use optimized::ops::linear::{Tiling, linear_tiled};

#[test]
fn smoke() {
    for form in [Form::Fast, Form::Checked] {
        let gpu = Gpu::open(DeviceChoice::Emulated(form)).unwrap();
        println!("{}", gpu.name());
        let (n, m, k) = (256, 1024, 1024);
        let x = Array2::from_shape_fn((n, k), |(i, j)| bf16::from_f32(((i * 7 + j * 3) % 5) as f32 - 2.0));
        let w = Array2::from_shape_fn((m, k), |(i, j)| bf16::from_f32(((i * 5 + j * 11) % 7) as f32 - 3.0));
        let (dx, dw) = (gpu.upload(x.view()).unwrap(), gpu.upload(w.view()).unwrap());
        for tiling in [Tiling::Small, Tiling::Large] {
            for _ in 0..3 {
                let t = std::time::Instant::now();
                let y = linear_tiled::<f32>(&gpu, tiling, &dx, &dw);
                let y = match y { Ok(y) => y, Err(e) => panic!("{e}") };
                let s = t.elapsed().as_secs_f64();
                println!("{form:?} {tiling:?} {:.1} ms {:.2} GFLOP/s {:?}", s * 1e3, 2.0 * (n * m * k) as f64 / s / 1e9, emulated::last_launch());
                let y = gpu.download(&y).unwrap();
                let want = x.mapv(f32::from).dot(&w.mapv(f32::from).t());
                assert!(y == want);
            }
        }
    }
}
