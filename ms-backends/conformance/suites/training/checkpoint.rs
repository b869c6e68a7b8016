//! Tests checkpoints: saved values are loaded, and nothing else is accepted.

use ms::prelude::*;
use ms::{Code, load_checkpoint, save_checkpoint};
use std::path::PathBuf;

/// A file in the system's temporary folder, removed on drop.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("ms checkpoint {} {name}", std::process::id())))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn net() -> nn::Sequential {
    nn::sequential![nn::Dense::new(3, 4), nn::ReLU, nn::Dense::new(4, 2)]
}

#[test]
fn a_saved_network_is_the_loaded_one() {
    let file = File::new("round trip");
    let (saved, loaded) = (net(), net());
    let x = random::uniform([5, 3], -1.0, 1.0);
    assert_ne!(saved.call(&x).to_vec::<f32>(), loaded.call(&x).to_vec::<f32>());
    save_checkpoint(&file.0, &saved).expect("the folder is writable");
    load_checkpoint(&file.0, &loaded).expect("the networks are alike");
    assert_eq!(saved.call(&x).to_vec::<f32>(), loaded.call(&x).to_vec::<f32>());
}

#[cell]
struct Training {
    net: nn::Dense,
    own: random::Generator,
    of_thread: &'static random::Generator,
}

#[test]
fn generators_continue_where_they_were_saved() {
    let file = File::new("generators");
    let new = |seed| Training {
        net: nn::Dense::new(2, 2),
        own: random::Generator::new(seed),
        of_thread: random::default_generator(),
    };
    let draw = |it: &Training| [it.own.randn([3]), random::randn([3])].map(|it| it.to_vec::<f32>());
    let saved = new(5);
    assert_eq!(saved.trainable_parameters().len(), 2);
    random::set_seed(6);
    draw(&saved);
    save_checkpoint(&file.0, &saved).expect("the folder is writable");
    let want = [(); 2].map(|()| draw(&saved));
    let continued = || {
        let loaded = new(1);
        load_checkpoint(&file.0, &loaded).expect("the cells are alike");
        [(); 2].map(|()| draw(&loaded))
    };
    assert_eq!(continued(), want);
    // On another thread, the generator of that thread continues.
    std::thread::scope(|scope| assert_eq!(scope.spawn(continued).join().expect("the cells are alike"), want));
    save_checkpoint(&file.0, random::default_generator()).expect("a generator is a cell");
}

#[test]
fn what_does_not_fit_is_named_and_changes_nothing() {
    let file = File::new("other");
    save_checkpoint(&file.0, &nn::sequential![nn::Dense::new(3, 4)]).expect("the folder is writable");
    let net = nn::sequential![nn::Dense::new(3, 5), nn::Dense::new(5, 1)];
    let before = net.call(&Tensor::ones([1, 3])).to_vec::<f32>();
    let error = load_checkpoint(&file.0, &net).expect_err("the shapes differ");
    assert_eq!(error.code(), Code::Argument);
    for words in ["layers[0].weight", "f32[5, 3]", "f32[4, 3]", "`layers[1].bias` is missing"] {
        assert!(error.to_string().contains(words), "`{words}` is not in {error}");
    }
    assert_eq!(net.call(&Tensor::ones([1, 3])).to_vec::<f32>(), before);
}

#[test]
fn broken_and_missing_files_are_errors() {
    let file = File::new("broken");
    let missing = load_checkpoint(&file.0, &net()).expect_err("there is no file");
    assert_eq!(missing.code(), Code::Io);
    save_checkpoint(&file.0, &net()).expect("the folder is writable");
    let bytes = std::fs::read(&file.0).expect("it was written");
    for length in 0..bytes.len() {
        std::fs::write(&file.0, &bytes[..length]).expect("the folder is writable");
        let error = load_checkpoint(&file.0, &net()).expect_err("the file is cut off");
        assert_eq!(error.code(), Code::Io, "{length} bytes");
    }
    let nowhere = file.0.join("no such folder");
    assert_eq!(save_checkpoint(nowhere, &net()).expect_err("no folder").code(), Code::Io);
}

#[test]
fn a_header_that_nests_without_end_is_an_error() {
    let file = File::new("nested");
    let header = "[".repeat(10_000_000);
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    std::fs::write(&file.0, bytes).expect("the folder is writable");
    assert_eq!(load_checkpoint(&file.0, &net()).expect_err("no header").code(), Code::Io);
}

/// Returns a network with parameters that are filled with one value.
fn constant(value: f32) -> nn::Sequential {
    let net = nn::sequential![nn::Dense::new(64, 64)];
    for parameter in net.parameters() {
        parameter.set(&ops::full_of(parameter.value().shape(), value, DType::F32));
    }
    net
}

#[test]
fn savers_at_once_leave_one_of_their_files() {
    // A separate folder is needed, since other tests of this process have unfinished files in the temporary folder.
    let folder = File::new("at once");
    std::fs::create_dir(&folder.0).expect("the folder is writable");
    let file = File(folder.0.join("of all"));
    let part = File(folder.0.join(format!(".ms-{}-0.part", std::process::id())));
    // The lock stands for a process with the same id in another container.
    let taken = std::fs::OpenOptions::new().write(true).create_new(true).open(&part.0).expect("the folder is writable");
    taken.lock().expect("files have locks here");
    save_checkpoint(&file.0, &constant(0.0)).expect("the folder is writable");
    std::thread::scope(|scope| {
        let savers: Vec<_> = (1..5)
            .map(|value| {
                let path = &file.0;
                scope.spawn(move || {
                    let net = constant(value as f32);
                    (0..20).for_each(|_| save_checkpoint(path, &net).expect("the folder is writable"));
                })
            })
            .collect();
        let loaded = constant(-1.0);
        while !savers.iter().all(|it| it.is_finished()) {
            load_checkpoint(&file.0, &loaded).expect("the file is a whole one at any time");
            let values: Vec<f32> = loaded.parameters().iter().flat_map(|it| it.value().to_vec::<f32>()).collect();
            assert!(values.iter().all(|it| *it == values[0]), "the file is of one saver");
        }
    });
    assert!(part.0.exists(), "what is locked is another saver's");
    drop(taken);
    let left: Vec<_> = std::fs::read_dir(&folder.0).expect("the folder is readable").flatten().collect();
    let unfinished = left.iter().filter(|it| it.path() != file.0 && it.path() != part.0).count();
    assert_eq!(unfinished, 0, "nothing unfinished is left");
    drop((file, part));
    std::fs::remove_dir(&folder.0).expect("the folder is empty");
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_replaced() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let (socket, folder, link, file) =
        (File::new("socket"), File::new("folder"), File::new("link"), File::new("linked"));
    let _listener = std::os::unix::net::UnixListener::bind(&socket.0).expect("the folder is writable");
    std::fs::create_dir(&folder.0).expect("the folder is writable");
    for other in [&socket, &folder] {
        let error = save_checkpoint(&other.0, &net()).expect_err("it is no regular file");
        assert_eq!(error.code(), Code::Io);
        assert!(error.to_string().contains("no regular file"), "{error}");
    }
    assert!(std::fs::symlink_metadata(&socket.0).expect("it stands").file_type().is_socket());
    std::fs::remove_dir(&folder.0).expect("it is empty");

    std::fs::write(&file.0, "old").expect("the folder is writable");
    std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o640)).expect("it is this process' own");
    symlink(&file.0, &link.0).expect("the folder is writable");
    save_checkpoint(&link.0, &net()).expect("a link to a file is that file");
    assert!(std::fs::symlink_metadata(&link.0).expect("it stands").is_symlink());
    let mode = std::fs::metadata(&file.0).expect("it stands").permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "permissions stay");
    load_checkpoint(&file.0, &net()).expect("the file behind the link was replaced");
}
