//! What fuzzers call: any bytes are an entry or a defect, and never more than that.

use crate::entry::{Contents, decode_header, encode};
use crate::{Digest, Secret};

/// Reads bytes as the file of an entry. One that is believed has to be what writing its contents
/// gives; one that is not has a defect. The header is tried with a right hash as well, so that
/// what lies behind the hash is reached.
pub fn entry(bytes: &[u8]) {
    let secret = Secret::of(b"of the fuzzer");
    for secret in [None, Some(&secret)] {
        check(bytes, secret);
    }
    let mut mended = bytes.to_vec();
    if let Some(len) = bytes.get(12..16).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]) as usize)
        && let Some(header) = mended.get_mut(..len)
        && let Some((body, hash)) = header.split_last_chunk_mut::<{ Digest::LEN }>()
    {
        *hash = *Digest::of(body).as_bytes();
        check(&mended, None);
    }
}

fn check(bytes: &[u8], secret: Option<&Secret>) {
    let Ok(header) = decode_header(bytes, secret) else { return };
    let _length = header.payload_len();
    if header.check_payload(bytes, secret).is_err() {
        return;
    }
    let notes: Vec<(&str, &str)> = header.notes.iter().map(|(name, text)| (&**name, &**text)).collect();
    let contents = Contents { notes: &notes, data: &bytes[header.data()], code: &bytes[header.code()] };
    let again = encode(&header.key, &contents, header.created, secret).pieces().concat();
    let header_again = decode_header(&again, secret).expect("what was just written");
    header_again.check_payload(&again, secret).expect("what was just written");
    assert_eq!(header_again.key, header.key);
    assert_eq!(&again[header_again.data()], contents.data);
    assert_eq!(&again[header_again.code()], contents.code);
}
