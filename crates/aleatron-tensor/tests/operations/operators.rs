//! Operators, axes of reductions, random tensors and files, on every device.

use std::collections::BTreeMap;

use aleatron_tensor::{DType, Device, Error, Generator, Tensor, io};
use half::f16;

use crate::common;

fn row(values: &[f32], device: &Device) -> Tensor {
    Tensor::from_slice(values, &[values.len()], device).unwrap()
}

#[test]
fn operators_equal_methods_for_every_form_of_argument() {
    for device in common::devices() {
        let (x, y) = (row(&[1.0, 2.0, -4.0], &device), row(&[2.0, 0.5, 8.0], &device));
        let values = |result: Result<Tensor, Error>| result.unwrap().to_vec::<f32>().unwrap();
        assert_eq!(values(&x + &y), [3.0, 2.5, 4.0]);
        assert_eq!(values(x.clone() - &y), [-1.0, 1.5, -12.0]);
        assert_eq!(values(&x * y.clone()), [2.0, 1.0, -32.0]);
        assert_eq!(values(x.clone() / y.clone()), [0.5, 4.0, -0.5]);
        assert_eq!(values(-&x), [-1.0, -2.0, 4.0]);
        assert_eq!(values(-x.clone()), [-1.0, -2.0, 4.0]);
        // Numbers, on both sides.
        assert_eq!(values(&x + 1.0), [2.0, 3.0, -3.0]);
        assert_eq!(values(&x * 2), [2.0, 4.0, -8.0]);
        assert_eq!(values(&x * 2.0f32), [2.0, 4.0, -8.0]);
        assert_eq!(values(8.0 / &x), [8.0, 4.0, -2.0]);
        assert_eq!(values(1 - x.clone()), [0.0, -1.0, 5.0]);
        // Results of other operators.
        assert_eq!(values(2.0 * &x + &y), [4.0, 4.5, 0.0]);
        assert_eq!(values(&y - (&x * 2.0)), [0.0, -3.5, 16.0]);
        // The first error is that of the expression.
        let long = row(&[1.0; 4], &device);
        assert!(matches!(&x * &long + &x, Err(Error::Shapes { op: "mul", .. })));
        assert!(matches!(&x + (&x * &long), Err(Error::Shapes { op: "mul", .. })));
        assert!(matches!(&x + &x.cast(DType::I32).unwrap(), Err(Error::Promotion { .. })));
    }
    let (host, gpu) = (row(&[1.0], &Device::Cpu), row(&[1.0], &common::gpu()));
    assert!(matches!(&host + &gpu, Err(Error::Devices { .. })));
}

#[test]
fn axes_are_numbers_arrays_or_slices() {
    let x =
        Tensor::arange(0, 24, 1, DType::I32, &Device::Cpu).unwrap().reshape(&[2, 3, 4]).unwrap();
    let of = |result: aleatron_tensor::Result<Tensor>| {
        let result = result.unwrap();
        (result.shape().to_vec(), result.to_vec::<i32>().unwrap())
    };
    assert_eq!(of(x.sum(0)), (vec![3, 4], (0..12).map(|i| 2 * i + 12).collect()));
    assert_eq!(of(x.sum(-3)), of(x.sum(0usize)));
    assert_eq!(of(x.max([0, -1])), (vec![3], vec![15, 19, 23]));
    assert_eq!(of(x.max(&[0, 2][..])), of(x.max(&vec![0, 2])));
    assert_eq!(of(x.min_keepdim([1, 2])), (vec![2, 1, 1], vec![0, 12]));
    assert_eq!(of(x.argmax_all()), (vec![], vec![23]));
    assert!(matches!(x.sum(3), Err(Error::Axis { axis: 3, rank: 3, .. })));
    assert!(matches!(x.sum(usize::MAX), Err(Error::Axis { axis: isize::MAX, .. })));
    let y = x.cast(DType::F32).unwrap();
    assert_eq!(y.var_all(0.0).unwrap().item::<f32>().unwrap(), (24.0 * 24.0 - 1.0) / 12.0);
    assert_eq!(y.var_keepdim(-1, 1.0).unwrap().shape(), [2, 3, 1]);
    assert_eq!(
        y.mean(1).unwrap().to_vec::<f32>().unwrap(),
        [4.0, 5.0, 6.0, 7.0, 16.0, 17.0, 18.0, 19.0]
    );
}

#[test]
fn generators_draw_other_numbers_on_each_call_and_repeat_them_for_a_seed() {
    let draw = |generator: &mut Generator| {
        let x = generator.randn(&[64], DType::F32, &Device::Cpu).unwrap().to_vec::<f32>().unwrap();
        let y = generator.rand(&[64], DType::F32, &Device::Cpu).unwrap().to_vec::<f32>().unwrap();
        [x, y]
    };
    let mut generator = Generator::new(1);
    let (first, second) = (draw(&mut generator), draw(&mut generator));
    assert_eq!(draw(&mut Generator::new(1)), first);
    assert_ne!(draw(&mut Generator::new(2)), first);
    assert!(first.iter().zip(&second).all(|(a, b)| a != b));
    let free =
        |_: usize| Tensor::rand(&[64], DType::F32, &Device::Cpu).unwrap().to_vec::<f32>().unwrap();
    assert_ne!(free(0), free(1));
}

#[test]
fn tensors_of_every_type_and_device_survive_a_file() {
    let folder = std::env::temp_dir().join(format!("aleatron-tensor-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("all.safetensors");
    for device in common::devices() {
        let x = row(&[0.0, 1.0, -2.5, f32::INFINITY, 5.0, 6.0], &device).reshape(&[2, 3]).unwrap();
        let mut tensors = BTreeMap::new();
        for dtype in DType::ALL.into_iter().filter(|&dtype| device.supports(dtype)) {
            tensors.insert(format!("of {dtype}"), x.cast(dtype).unwrap());
        }
        // A view is saved without the elements around it.
        tensors.insert("column".to_owned(), x.t().unwrap().slice(0, 1..2).unwrap());
        tensors.insert("none".to_owned(), Tensor::zeros(&[0, 3], DType::F16, &device).unwrap());
        io::save(&tensors, &path).unwrap();
        let read = io::load(&path, &device).unwrap();
        assert!(read.keys().eq(tensors.keys()));
        for (name, tensor) in &tensors {
            let read = &read[name];
            let of = |x: &Tensor| {
                let text = format!("{x:?}");
                (text, x.shape().to_vec(), x.dtype(), x.device())
            };
            assert_eq!(of(read), of(tensor), "{name}");
        }
        assert_eq!(read["column"].to_vec::<f32>().unwrap(), [1.0, 5.0]);
        assert_eq!(read["of f16"].to_vec::<f16>().unwrap()[2], f16::from_f32(-2.5));
        let error = Tensor::load(&path, &device).unwrap_err().to_string();
        assert!(error.contains("holds") && error.contains("all.safetensors"), "{error}");
        x.save(folder.join("one.safetensors")).unwrap();
        let one = Tensor::load(folder.join("one.safetensors"), &Device::Cpu).unwrap();
        assert_eq!(one.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
    }
    std::fs::write(&path, b"no tensors").unwrap();
    for wrong in [path.clone(), folder.join("missing"), folder.clone()] {
        assert!(
            matches!(io::load(&wrong, &Device::Cpu), Err(Error::File { path, .. }) if path == wrong)
        );
    }
    let missing = folder.join("no").join("such").join("folder");
    assert!(matches!(row(&[1.0], &Device::Cpu).save(missing), Err(Error::File { .. })));
    // Only the finished files are left.
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn auto_reports_its_choice_and_leaves_small_work_on_the_cpu() {
    let auto = Device::auto();
    let text = auto.to_string();
    assert!(text.contains("cpu"), "{text}");
    let work = aleatron_tensor::Work::Matmul { m: 2, k: 2, n: 2 };
    assert_eq!(auto.device_for(work), Device::Cpu, "{text}");
    // The report names the device of large work.
    assert!(text.contains(&auto.device().to_string()), "{text}");
}
