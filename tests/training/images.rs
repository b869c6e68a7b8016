//! Tests folders of images: files that Pillow wrote (`data/images.py`), and broken files.

use ms::Code;
use ms::data::{Epoch, ImageFolder, resize};
use ms::prelude::*;
use ms_conformance::folder::Folder;
use std::path::{Path, PathBuf};

fn written() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/training/data/images")
}

fn sample(images: &ImageFolder, index: usize) -> Result<(Tensor, Tensor)> {
    images.get(Epoch::new(0, 0), index)
}

/// A file, its pixel by colour, row and column, its size, its class, and the tolerance of pixels.
type Case<'a> = (&'a str, &'a dyn Fn(usize, usize, usize) -> usize, [usize; 2], i64, i64);

#[test]
fn images_of_pillow() {
    let images = ImageFolder::open(written()).expect("it is in the repository");
    assert_eq!((images.classes(), images.len()), (&["first".to_owned(), "second".to_owned()][..], 4));
    // The formulas of `data/images.py` give colours, grey, and a plain JPEG; one image is transparent.
    let colour = |c: usize, y: usize, x: usize| (60 * c + 20 * y + 7 * x) % 256;
    let grey = |_: usize, y: usize, x: usize| (40 * y + 9 * x) % 256;
    let plain = |c: usize, _: usize, _: usize| [200, 100, 50][c];
    let cases: [Case; 4] = [
        ("first/a.png", &colour, [4, 5], 0, 0),
        ("first/b.PNG", &grey, [3, 2], 0, 0),
        ("second/c.jpg", &plain, [16, 8], 1, 3),
        ("second/d.png", &colour, [2, 2], 1, 0),
    ];
    for (at, (name, want, [height, width], class, tolerance)) in cases.into_iter().enumerate() {
        let (image, label) = sample(&images, at).expect(name);
        assert!(images.name(Epoch::new(0, 0), at).contains(name));
        assert_eq!((image.shape(), image.dtype(), label.item::<i64>()), (&[3, height, width][..], DType::U8, class));
        let places = (0..3).flat_map(|c| (0..height).flat_map(move |y| (0..width).map(move |x| (c, y, x))));
        for ((c, y, x), got) in places.zip(image.to_vec::<u8>()) {
            let want = want(c, y, x) as i64;
            assert!((i64::from(got) - want).abs() <= tolerance, "{name} at {c}, {y}, {x}: {got}, not {want}");
        }
    }
    // Two workers load images of different sizes into a batch.
    let resized = images.try_map(|(image, class)| Ok((resize(&image, 6, 4)?, class)));
    let (batch, classes) = DataLoader::new(resized.batch(4)).workers(2).draw().expect("all are decoded");
    assert_eq!((batch.shape(), classes.to_vec::<i64>()), (&[4, 3, 6, 4][..], vec![0, 0, 1, 1]));
}

#[test]
fn sizes() {
    let plain = Tensor::full([3, 4, 6], 77u8);
    for [height, width] in [[1, 1], [2, 3], [9, 5]] {
        let image = resize(&plain, height, width).expect("an image");
        assert!(image.shape() == [3, height, width] && image.to_vec::<u8>().iter().all(|it| *it == 77));
    }
    let half = resize(&Tensor::from_slice([3, 1, 4], &[0u8, 0, 200, 200, 10, 10, 10, 10, 1, 1, 1, 1]), 1, 1);
    assert_eq!(half.expect("an image").to_vec::<u8>(), [100, 10, 1]);
    for (image, height, code) in [
        (plain.cast(DType::F32), 2, Code::DType),
        (plain.i(0..2), 2, Code::Shape),
        (plain.i((.., 0..0)), 2, Code::Shape),
        (plain.clone(), 0, Code::Argument),
        (plain.clone(), 1 << 20, Code::Argument),
    ] {
        assert_eq!(resize(&image, height, 2).expect_err("it is refused").code(), code);
    }
}

#[test]
fn broken_images_and_folders_are_refused() {
    let folder = Folder::new("images");
    let class = folder.0.join("class");
    std::fs::create_dir_all(&class).expect("no other test has this name");
    assert_eq!(ImageFolder::open(&folder.0).expect_err("no image").code(), Code::Argument);
    assert_eq!(ImageFolder::open(folder.0.join("none")).expect_err("no folder").code(), Code::Io);
    let whole = std::fs::read(written().join("first/a.png")).expect("it is in the repository");
    let path = class.join("a.png");
    std::fs::write(class.join("notes.txt"), "no image").expect("the folder is writable");
    let refused = |bytes: &[u8], what: &str| {
        std::fs::write(&path, bytes).expect("the folder is writable");
        let images = ImageFolder::open(&folder.0).expect("one file");
        assert_eq!(images.len(), 1);
        let error = sample(&images, 0).expect_err(what);
        assert!(error.code() == Code::Parse && error.to_string().contains("a.png"), "{what}: {error}");
    };
    for length in (0..whole.len() - 16).step_by(5) {
        refused(&whole[..length], "cut off");
    }
    // The header claims the largest size, with a valid checksum.
    let mut bomb = whole.clone();
    bomb[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let step = |rest: u32, _| (rest >> 1) ^ if rest & 1 == 1 { 0xedb8_8320 } else { 0 };
    let checksum = !bomb[12..29].iter().fold(!0u32, |rest, it| (0..8).fold(rest ^ u32::from(*it), step));
    bomb[29..33].copy_from_slice(&checksum.to_be_bytes());
    refused(&bomb, "a promise of 2^62 pixels");
    refused(b"hello", "a text");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(written().join("first/a.png"), class.join("b.png")).expect("a link");
        let error = ImageFolder::open(&folder.0).expect_err("a link out of the folder");
        assert!(error.code() == Code::Argument && error.to_string().contains("b.png"), "{error}");
    }
}
