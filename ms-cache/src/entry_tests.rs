use super::*;
use crate::KeyBuilder;

fn bytes(key: &Key, contents: &Contents<'_>, secret: Option<&Secret>) -> Vec<u8> {
    let created = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    encode(key, contents, created, secret)
}

/// Returns the key, the data and the code of a file.
fn decode(file: &[u8]) -> Result<(Key, &[u8], &[u8]), Defect> {
    let header = decode_header(file, None)?;
    header.check_payload(file, None)?;
    Ok((header.describe(file)?.key, &file[header.data()], &file[header.code()]))
}

fn small() -> (Key, Vec<u8>) {
    let key = KeyBuilder::new(5).part("graph", b"g").part("signature", b"f32[2]").finish();
    let contents = Contents { notes: &[("function", "f")], data: b"data", code: &[] };
    let file = bytes(&key, &contents, None);
    (key, file)
}

#[test]
fn what_is_written_is_read() {
    let many = (0..300).fold(KeyBuilder::new(1), |key, i| key.part(format!("part {i}"), &[]));
    let longest = KeyBuilder::new(u32::MAX).part("n".repeat(Part::MAX_NAME), b"x").part("", b"");
    let long = "é".repeat(40_000);
    for key in [KeyBuilder::new(0), many, longest].map(KeyBuilder::finish) {
        for (data, code) in [(&[][..], &[][..]), (&[0], &[]), (&[7; 1000], &[9; 5000]), (&[], &[1]), (&[3; 4096], &[2])]
        {
            let contents = Contents { notes: &[("a", "b"), ("long", &long)], data, code };
            let file = bytes(&key, &contents, None);
            assert_eq!(decode(&file), Ok((key.clone(), data, code)));
            let header = decode_header(&file, None).expect("the header as written");
            assert!(header.data().start.is_multiple_of(ALIGNMENT));
            assert!(code.is_empty() || header.code().start.is_multiple_of(PAGE));
            let notes = header.describe(&file).expect("the header as written").notes;
            assert_eq!(notes[0], ("a".into(), "b".into()));
            assert_eq!(notes[1].1, "é".repeat(32_767));
            assert_eq!(header.created, SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        }
    }
}

#[test]
fn every_truncation_is_found() {
    let (key, plain) = small();
    let with_code = bytes(&key, &Contents { code: &[1; 10], ..Contents::data(b"d") }, None);
    for file in [plain, with_code] {
        for len in 0..file.len() {
            assert_eq!(decode(&file[..len]), Err(Defect::Short), "at {len}");
        }
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let (key, plain) = small();
    let with_code = bytes(&key, &Contents { code: &[1; 10], ..Contents::data(b"d") }, None);
    for file in [plain, with_code] {
        for at in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(decode(&flipped).is_err(), "bit {at}");
        }
    }
}

#[test]
fn bytes_after_the_payload_are_found() {
    let (_, mut file) = small();
    file.push(0);
    assert_eq!(decode(&file), Err(Defect::Long));
}

#[test]
fn other_files_and_versions_are_told_apart() {
    let (_, mut file) = small();
    file[8] = 1;
    assert_eq!(decode(&file), Err(Defect::Version(1)));
    assert_eq!(decode(b"#!/bin/sh\nexec true\n"), Err(Defect::Magic));
}

#[test]
fn a_secret_vouches_for_an_entry() {
    let (key, plain) = small();
    let [ours, theirs] = [Secret::of(&[1; 32]), Secret::of(&[2; 32])];
    let keyed = bytes(&key, &Contents::data(b"data"), Some(&ours));
    assert_eq!(decode_header(&keyed, Some(&ours)).map(|it| it.key), Ok(*key.hash()));
    assert_eq!(decode_header(&keyed, Some(&theirs)), Err(Defect::Header));
    assert_eq!(decode_header(&keyed, None), Err(Defect::Keyed(true)));
    assert_eq!(decode_header(&plain, Some(&ours)), Err(Defect::Keyed(false)));
    // Without the secret, a plain entry must not pass as a keyed one.
    let mut forged = plain;
    forged[16] = 1;
    assert_eq!(decode_header(&forged, Some(&ours)), Err(Defect::Header));
}

#[test]
fn a_header_that_lies_with_a_right_hash_is_refused() {
    let (key, file) = small();
    let end = decode_header(&file, None).expect("the header as written").data().start;
    let (count_of_parts, data_len) = (FIXED - 8, FIXED - 8 - Digest::LEN - 16);
    for at in [count_of_parts, count_of_parts + 3, count_of_parts + 4, data_len, data_len + 7, FIXED, FIXED + 1] {
        for value in [0, 3, 200, 0xff] {
            let mut lying = file.clone();
            lying[at] = value;
            let hash = Digest::of(&lying[..end - Digest::LEN]);
            lying[end - Digest::LEN..end].copy_from_slice(hash.as_bytes());
            // A header that still parses has another key, or differs in its notes only.
            match decode(&lying) {
                Err(_) => {}
                Ok((found, data, code)) => assert!(found != key || (data, code) == (b"data", &[])),
            }
        }
    }
}

#[test]
fn the_format_is_stable() {
    assert_eq!(
        Digest::of(&small().1).to_string(),
        "abebba4bee2a64ba159e98809c426f7af94de39e3678213636fff51c5e9d2c0d",
        "raise VERSION when the format changes"
    );
}
