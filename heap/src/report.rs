//! Wrong frees and damaged structures: one line on stderr that names the pointer, then abort.

use crate::options;
use crate::os;
use crate::stats::{self, WRONG};
use crate::text::{Text, Write};

pub enum Fault {
    DoubleFree,
    Interior,
    Misaligned,
    Foreign,
    /// In the estate, where nothing is allocated.
    Gone,
    /// Found when a block came back to its span.
    AlreadyFree,
    Overwritten,
    /// Free by the map, and never handed out or long back there.
    NotHandedOut,
    /// Found when the block was to be handed out again.
    Broken,
}

/// Reports what is wrong with `p`; `size` is the size of its block's bucket, 0 if there is none.
/// Comes back only if the option `abort` is 0.
#[cold]
#[inline(never)]
pub fn fault(fault: Fault, p: usize, size: usize) {
    stats::count(&WRONG);
    let mut line = Text::<256>::new();
    line.add("evenkeel: ").pointer(p).add(": ");
    line.add(match fault {
        Fault::DoubleFree => "double free: the block is free already",
        Fault::Interior => "not the start of a block but inside one",
        Fault::Misaligned => "misaligned, and not the start of a block",
        Fault::Foreign => "not from this heap",
        Fault::Gone => "double free: nothing is allocated there any more",
        Fault::AlreadyFree => "double free: the map says that the block is free already",
        Fault::NotHandedOut => "not handed out, or double free: the map says that the block is free",
        Fault::Broken => "its seal is broken: written to after it was freed, or double free",
        Fault::Overwritten => "no block begins here: a slot of the heap was overwritten",
    });
    if size > 0 {
        line.add(" (block of ").number(size).add(" bytes");
        if let Some(bucket) = crate::bucket::of(size).filter(|&b| crate::bucket::size(b) == size) {
            line.add(", bucket ").number(bucket);
        }
        line.add(")");
    }
    os::write(2, line.add("\n").as_bytes());
    if options::ABORT.get() != 0 {
        os::abort();
    }
}
