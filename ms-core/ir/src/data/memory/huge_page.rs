//! Maps memory in huge pages.

use memmap2::MmapMut;
use std::ptr::NonNull;

/// Bytes of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// Maps memory, and returns it with the start of `bytes` bytes in it that are whole huge pages.
pub(super) fn map(bytes: usize) -> Option<(NonNull<u8>, MmapMut)> {
    let len = bytes.checked_next_multiple_of(HUGE_PAGE)?.checked_add(HUGE_PAGE)?;
    let mut mapping = MmapMut::map_anon(len).ok()?;
    let skip = mapping.as_ptr().align_offset(HUGE_PAGE);
    #[cfg(target_os = "linux")]
    {
        // If the system refuses, small pages work as well, only slower.
        mapping.advise_range(memmap2::Advice::HugePage, skip, bytes).ok();
    }
    let block = NonNull::new(mapping.as_mut_ptr().wrapping_add(skip))?;
    Some((block, mapping))
}
