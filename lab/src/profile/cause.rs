//! What a stack stands for, in words that a database person knows: the heap, a latch, the log, the network, the scheduler.
//!
//! - A stack with a frame of the heap belongs to the heap, whatever that calls: its locks, its system calls, the page faults it takes.
//! - Else the frame nearest to the leaf that a rule knows decides. Rules that only say how a thread waits (a mutex, a poll) decide where no
//!   other does.
//! - A switch of a thread that would have gone on is the scheduler's, whatever the thread did.
//!
//! The rules are facts about names: of glibc, the Linux kernel, MariaDB and MySQL, RocksDB, TidesDB, and the Windows heap.

use super::{Frame, PREEMPTED, Profile, WAITING, parts};
use serde::{Deserialize, Serialize};

macro_rules! causes {
    ($($cause:ident => $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Cause {
            $($cause,)*
        }

        impl Cause {
            /// In the order of the tables.
            pub const ALL: [Cause; [$($name),*].len()] = [$(Cause::$cause),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Cause::$cause => $name,)*
                }
            }
        }
    };
}

causes! {
    HeapAllocation => "heap: allocation",
    HeapFree => "heap: free",
    HeapLock => "heap: its locks",
    HeapSystemCall => "heap: its system calls",
    HeapPageFault => "heap: its page faults",
    PageFault => "page faults outside the heap",
    Latch => "latches",
    BusyWait => "busy waiting for latches",
    Log => "log",
    RowLock => "row locks",
    MetadataLock => "metadata locks",
    TableCache => "table cache",
    Lock => "other locks",
    Disk => "disk",
    Network => "network",
    Preemption => "preemption by the scheduler",
    Background => "background threads",
    IdleClient => "waiting for the client",
    IdleBackground => "background threads at rest",
    Work => "the server's own work",
    Load => "the load's own CPU",
    Kernel => "the kernel",
    Unknown => "unknown",
}

use Cause::*;

impl Cause {
    pub fn is_heap(self) -> bool {
        matches!(self, HeapAllocation | HeapFree | HeapLock | HeapSystemCall | HeapPageFault)
    }

    /// A thread that has nothing to do loses nothing by waiting.
    pub fn is_idle(self) -> bool {
        matches!(self, IdleClient | IdleBackground)
    }
}

/// Functions that a heap is called by. Where the heap is a library of its own, every function of it counts.
const ALLOCATES: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "_int_malloc",
    "_int_realloc",
    "_int_memalign",
    "sysmalloc*",
    "malloc_consolidate",
    "malloc_hook_ini",
    "ptmalloc_init*",
    "arena_get*",
    "tcache_*",
    "new_heap",
    "grow_heap",
    "operator new*",
    "_Znw*",
    "_Zna*",
    "my_malloc",
    "my_realloc",
    "my_multi_malloc*",
    "_malloc_base",
    "_calloc_base",
    "_realloc_base",
    "RtlAllocateHeap*",
    "RtlReAllocateHeap*",
    "RtlpAllocate*",
    "RtlpReAllocate*",
    "RtlpHp*",
    "RtlpLowFragHeap*",
    "HeapAlloc",
    "HeapReAlloc",
];

const FREES: &[&str] = &[
    "free",
    "cfree",
    "__libc_free",
    "_int_free*",
    "systrim*",
    "heap_trim*",
    "shrink_heap*",
    "malloc_trim",
    "unlink_chunk*",
    "free_sized",
    "free_aligned_sized",
    "operator delete*",
    "_Zdl*",
    "_Zda*",
    "my_free",
    "_free_base",
    "RtlFreeHeap*",
    "RtlpFree*",
    "RtlpHpFree*",
    "HeapFree",
];

/// Objects that are heaps, by what their file names hold.
const HEAPS: [&str; 9] = [
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "mimalloc",
    "jemalloc",
    "libsnmalloc",
    "snmalloc",
    "rpmalloc",
    "libevenkeel",
];

const LOCKS: &[&str] = &[
    "__lll_lock*",
    "lll_lock*",
    "___pthread_mutex_lock",
    "__pthread_mutex_lock*",
    "pthread_mutex_lock*",
    "pthread_mutex_unlock*",
    "__pthread_mutex_unlock*",
    "pthread_spin_lock",
    "pthread_rwlock_*",
    "__pthread_rwlock_*",
    "pthread_cond_*",
    "___pthread_cond_*",
    "__pthread_cond_*",
    "__futex_abstimed_wait*",
    "futex_wait*",
    "futex_wake*",
    "do_futex",
    "__x64_sys_futex",
    "__schedule_futex*",
    "RtlEnterCriticalSection*",
    "RtlLeaveCriticalSection*",
    "RtlpEnterCriticalSection*",
    "RtlpWaitOnCriticalSection*",
    "RtlAcquireSRWLock*",
    "RtlReleaseSRWLock*",
    "malloc_mutex_lock*",
    "je_malloc_mutex_lock*",
    "SpinLock::*",
    "base::internal::SpinLock*",
    "std::mutex::lock*",
];

const FAULTS: &[&str] = &[
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "page_fault",
    "do_page_fault",
    "__do_page_fault",
    "handle_mm_fault",
    "MmAccessFault",
    "KiPageFault",
];

const SYSTEM_CALLS: &[&str] = &[
    "entry_SYSCALL_64*",
    "do_syscall_64",
    "NtAllocateVirtualMemory",
    "NtFreeVirtualMemory",
    "MiAllocateVirtualMemory",
    "mmap*",
    "__mmap*",
    "munmap",
    "__munmap",
    "madvise",
    "__madvise",
    "mprotect",
    "__mprotect",
    "brk",
    "__brk",
    "sbrk",
    "__sbrk",
    "mremap",
];

/// What else a server spends its time on. The nearest to the leaf decides.
const RULES: &[(Cause, &[&str])] = &[
    (
        BusyWait,
        &[
            "ut_delay*",
            "*spin_lock*",
            "*lock_spin*",
            "*::spin_*",
            "*_spin",
            "srw_pause*",
            "my_cpu_relax*",
            "LF_BACKOFF*",
            "do_sched_yield",
            "__sched_yield",
            "sched_yield",
            "os_thread_yield",
            "__x64_sys_sched_yield",
        ],
    ),
    (
        Log,
        &[
            "log_write*",
            "log_buffer*",
            "log_t::*",
            "log_flush*",
            "log_file*",
            "log_free_check*",
            "log_checkpoint*",
            "group_commit_lock*",
            "trx_flush_log*",
            "trx_commit_complete*",
            "mtr_t::commit_log*",
            "MYSQL_BIN_LOG::*",
            "TC_LOG*",
            "rocksdb::WriteThread*",
            "rocksdb::log::Writer*",
            "rocksdb::DBImpl::*WAL*",
            "translog_*",
            "ma_commit*",
        ],
    ),
    (
        RowLock,
        &[
            "lock_wait*",
            "lock_rec_*",
            "lock_table_*",
            "lock_sys_t::*",
            "DeadlockChecker*",
            "row_mysql_handle_errors",
            "rocksdb::*LockManager*",
            "rocksdb::PointLock*",
        ],
    ),
    (MetadataLock, &["MDL_*", "mdl_*", "wait_for_mdl*"]),
    (
        TableCache,
        &[
            "tdc_*",
            "tc_*",
            "Table_cache*",
            "TDC_element*",
            "open_table",
            "open_table(*",
            "close_thread_table*",
            "close_thread_tables*",
            "intern_close_table*",
            "table_def_*",
        ],
    ),
    (
        Latch,
        &[
            "rw_lock_*",
            "sux_lock*",
            "ssux_lock*",
            "srw_lock*",
            "srw_mutex*",
            "rw_lock::*",
            "*ssux_lock_impl*",
            "*srw_mutex_impl*",
            "*srw_lock_impl*",
            "PolicyMutex*",
            "TTASEventMutex*",
            "TTASMutex*",
            "TTASFutexMutex*",
            "OSTrackMutex*",
            "sync_array_*",
            "os_event::wait*",
            "os_event_wait*",
            "buf_page_get_gen*latch*",
            "block_lock::*",
            "index_lock::*",
            "rw_trx_hash_t::*",
            "lf_hash_iterate*",
            "rocksdb::InstrumentedMutex*",
            "rocksdb::port::Mutex*",
        ],
    ),
    (
        Disk,
        &[
            "fil_io*",
            "fil_space_t::io*",
            "os_file_*",
            "os_aio*",
            "io_getevents*",
            "__io_getevents*",
            "io_submit*",
            "*tpool::aio*",
            "pread64",
            "__pread64*",
            "__libc_pread*",
            "pwrite64",
            "__pwrite64*",
            "__libc_pwrite*",
            "fsync",
            "__fsync",
            "fdatasync",
            "__fdatasync",
            "blk_*",
            "submit_bio*",
            "io_schedule*",
            "filemap_*",
            "ext4_*",
            "xfs_*",
            "btrfs_*",
            "vfs_read",
            "vfs_write",
            "vfs_fsync*",
            "my_read*",
            "my_write*",
            "my_pread*",
            "my_pwrite*",
            "rocksdb::PosixRandom*",
            "rocksdb::PosixWritable*",
        ],
    ),
    (
        Network,
        &[
            "net_write*",
            "net_flush*",
            "net_real_write*",
            "my_net_write*",
            "my_net_read*",
            "my_real_read*",
            "net_read*",
            "vio_*",
            "send",
            "__send*",
            "__libc_send*",
            "sendto",
            "recv",
            "__recv*",
            "__libc_recv*",
            "sock_*",
            "__sys_send*",
            "__sys_recv*",
            "unix_stream_*",
            "tcp_*",
            "Protocol::end_statement*",
            "Protocol::send_eof*",
        ],
    ),
    (
        Background,
        &[
            "srv_purge*",
            "srv_worker*",
            "srv_do_purge*",
            "srv_task_execute*",
            "trx_purge*",
            "purge_worker*",
            "purge_coordinator*",
            "row_purge*",
            "buf_flush_page_cleaner*",
            "page_cleaner*",
            "buf_flush_*",
            "srv_master*",
            "srv_monitor*",
            "srv_error_monitor*",
            "srv_timer*",
            "dict_stats_*",
            "ib_dict_stats*",
            "fts_optimize*",
            "ma_checkpoint*",
            "rocksdb::*BackgroundFlush*",
            "rocksdb::*BackgroundCompaction*",
            "rocksdb::CompactionJob*",
            "rocksdb::FlushJob*",
            "rocksdb::ThreadPoolImpl*",
            "compaction_worker*",
            "tidesdb_*_worker_thread*",
            "tidesdb_*_thread",
        ],
    ),
];

/// A client's thread, between two statements if none of `STATEMENT` is there; a background thread between two tasks. Only for threads that wait.
const CLIENT_IDLE: &[&str] = &[
    "do_command*",
    "vio_io_wait*",
    "threadpool_process_request",
    "tp_wait_begin*",
    "vio_read_buff*",
    "net_read_packet*",
    "my_net_read_packet*",
];
const STATEMENT: &[&str] = &["dispatch_command*", "mysql_execute_command*", "mysqld_stmt_execute*"];
const BACKGROUND_IDLE: &[&str] = &[
    "*nanosleep*",
    "timer_handler*",
    "handle_slave_background",
    "handle_manager*",
    "os_thread_sleep*",
    "*tpool::*wait*",
    "*thread_pool_generic::*",
    "*waitable_task*",
    "poll_socket*",
    "handle_connections_sockets*",
    "*signal_hand*",
    "sigwait*",
    "__sigwait*",
    "sigtimedwait*",
    "__sigtimedwait*",
    "mysqld_main*",
    "io_getevents*",
    "io_uring_*",
    "ma_checkpoint_background*",
    "buf_flush_page_cleaner*",
];

/// How a thread waits, which says why only if nothing else does.
const PLAIN_LOCKS: &[&str] = LOCKS;

/// What each frame of a profile says, looked up once.
pub struct Causes {
    frames: Vec<Says>,
}

#[derive(Clone, Copy, Default)]
struct Says {
    heap: Option<Call>,
    cause: Option<Cause>,
    lock: bool,
    fault: bool,
    system_call: bool,
    kernel: bool,
    preempted: bool,
    waiting: bool,
    client: bool,
    statement: bool,
    rests: bool,
    database: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Call {
    Allocate,
    Free,
    Inside,
}

impl Causes {
    pub fn of(profile: &Profile) -> Causes {
        Causes { frames: profile.names().iter().map(|n| says(n)).collect() }
    }

    pub fn is_heap(&self, frame: Frame) -> bool {
        self.frames[frame as usize].heap.is_some()
    }

    /// The cause of a stack, root first.
    pub fn cause(&self, stack: &[Frame]) -> Cause {
        let says = |f: &Frame| self.frames[*f as usize];
        let first = stack.first().map(says).unwrap_or_default();
        if first.preempted {
            return Preemption;
        }
        if let Some(entry) = stack.iter().position(|f| says(f).heap.is_some()) {
            return heap(stack[entry..].iter().map(says));
        }
        let any = |what: fn(&Says) -> bool| stack.iter().any(|f| what(&says(f)));
        if first.waiting && any(|s| s.client) && !any(|s| s.statement) {
            return IdleClient;
        }
        if any(|s| s.fault) {
            return PageFault;
        }
        // Of a database server only the threads of clients wait for something that a client waits for.
        if first.waiting && any(|s| s.database) && !any(|s| s.client) {
            return IdleBackground;
        }
        if let Some(cause) = stack.iter().rev().find_map(|f| says(f).cause) {
            // MariaDB holds an answer back until its commit is durable: on a condition, not in a system call of the network.
            if first.waiting && cause == Network && any(|s| s.lock) {
                return Log;
            }
            // A thread that waits for a task has none.
            return if first.waiting && cause == Background && any(|s| s.rests || s.lock) {
                IdleBackground
            } else {
                cause
            };
        }
        if first.waiting && any(|s| s.rests) && !any(|s| s.statement) {
            return IdleBackground;
        }
        if any(|s| s.lock) {
            return Lock;
        }
        match stack.last().map(says) {
            Some(leaf) if leaf.kernel => Kernel,
            Some(_) if stack.iter().any(|f| says(f).system_call) => Kernel,
            Some(_) if stack.len() == 1 => Unknown,
            Some(_) => Work,
            None => Unknown,
        }
    }
}

/// Which part of the heap: the frames from its entry to the leaf.
fn heap(frames: impl Iterator<Item = Says> + Clone) -> Cause {
    if frames.clone().any(|s| s.fault) {
        return HeapPageFault;
    }
    if frames.clone().any(|s| s.lock) {
        return HeapLock;
    }
    if frames.clone().any(|s| s.system_call) {
        return HeapSystemCall;
    }
    match frames.filter_map(|s| s.heap).find(|c| *c != Call::Inside) {
        Some(Call::Free) => HeapFree,
        _ => HeapAllocation,
    }
}

/// Whether a frame of this name is the heap's.
pub fn is_heap(frame: &str) -> bool {
    says(frame).heap.is_some()
}

/// The cause that a single frame stands for: of a row in a table without stacks.
pub fn of_frame(frame: &str) -> Option<Cause> {
    let says = says(frame);
    match says.heap {
        Some(Call::Free) => Some(HeapFree),
        Some(_) => Some(HeapAllocation),
        None if says.lock => Some(Lock),
        None => says.cause,
    }
}

fn says(frame: &str) -> Says {
    let (object, function) = parts(frame);
    let own = object.unwrap_or("");
    let any = |patterns: &[&str]| patterns.iter().any(|p| fits(p, function));
    let kernel = own == "kernel" || own == "ntoskrnl.exe";
    let library = HEAPS.iter().any(|h| own.contains(h)) || function.starts_with("tcmalloc::");
    let heap = match () {
        _ if kernel => None,
        () if any(FREES) => Some(Call::Free),
        () if any(ALLOCATES) => Some(Call::Allocate),
        () if library => Some(Call::Inside),
        () => None,
    };
    Says {
        heap,
        cause: RULES.iter().find(|(_, patterns)| any(patterns)).map(|(cause, _)| *cause),
        lock: any(PLAIN_LOCKS),
        fault: any(FAULTS),
        system_call: any(SYSTEM_CALLS),
        kernel,
        preempted: frame == PREEMPTED,
        waiting: frame == WAITING,
        client: any(CLIENT_IDLE),
        statement: any(STATEMENT),
        rests: any(BACKGROUND_IDLE),
        database: own == "mariadbd" || own == "mysqld",
    }
}

/// A pattern: `*` at its beginning, its end or in its middle stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut rest = rest;
    loop {
        match rest.split_once('*') {
            None => return rest.is_empty() || left.ends_with(rest),
            Some((middle, after)) => match left.find(middle) {
                Some(at) => (left, rest) = (&left[at + middle.len()..], after),
                None => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::folded;

    fn cause(stack: &str) -> Cause {
        let profile = folded::read("t", &format!("{stack} 1")).unwrap();
        let (stack, _) = profile.stacks().next().unwrap();
        Causes::of(&profile).cause(stack)
    }

    #[test]
    fn patterns() {
        assert!(fits("malloc", "malloc") && !fits("malloc", "mallocx"));
        assert!(fits("RtlpHp*", "RtlpHpAllocVirtBlockCommitFirst") && !fits("RtlpHp*", "aRtlpHp"));
        assert!(fits("*spin_lock*", "native_queued_spin_lock_slowpath") && fits("*_spin", "rw_spin"));
        assert!(fits("a*b*c", "axxbyyc") && !fits("a*b*c", "axxcyyb"));
    }

    #[test]
    fn the_heap_and_its_parts() {
        let server = "libc.so.6!start_thread;mariadbd!do_command;mariadbd!dispatch_command;mariadbd!filesort";
        for (tail, wanted) in [
            ("mariadbd!my_malloc;libc.so.6!malloc;libc.so.6!fn@91000", HeapAllocation),
            ("mariadbd!my_free;libc.so.6!free", HeapFree),
            ("libjemalloc.so.2!free;libjemalloc.so.2!je_tcache_flush", HeapFree),
            ("libevenkeel.so!heap::depot::Depot::take", HeapAllocation),
            ("libc.so.6!malloc;libc.so.6!__lll_lock_wait_private;kernel!do_futex;kernel!schedule", HeapLock),
            ("libc.so.6!malloc;libc.so.6!__mmap;kernel!entry_SYSCALL_64_after_hwframe;kernel!do_mmap", HeapSystemCall),
            ("libx!malloc;kernel!asm_exc_page_fault;kernel!clear_page_erms", HeapPageFault),
            ("libc.so.6!__memset_avx2;kernel!asm_exc_page_fault;kernel!clear_page_erms", PageFault),
        ] {
            assert_eq!(cause(&format!("{server};{tail}")), wanted, "{tail}");
        }
        assert_eq!(
            cause("my_malloc;ucrtbase.dll!_malloc_base;ntdll.dll!RtlAllocateHeap;ntdll.dll!RtlEnterCriticalSection"),
            HeapLock
        );
        assert_eq!(cause("x;ntdll.dll!RtlEnterCriticalSection"), Lock);
    }

    #[test]
    fn waits() {
        let wait = "libc.so.6!__poll;kernel!entry_SYSCALL_64_after_hwframe;kernel!schedule";
        let client = "libc.so.6!start_thread;mariadbd!do_command";
        assert_eq!(cause(&format!("[waiting];{client};mariadbd!vio_io_wait;{wait}")), IdleClient);
        assert_eq!(cause(&format!("[preempted];{client};libc.so.6!malloc")), Preemption);
        let futex = "libc.so.6!pthread_cond_wait;kernel!do_futex;kernel!schedule";
        let statement = format!("{client};mariadbd!dispatch_command;mariadbd!mysql_execute_command");
        assert_eq!(cause(&format!("[waiting];{statement};mariadbd!MDL_wait::timed_wait;{futex}")), MetadataLock);
        assert_eq!(cause(&format!("[waiting];{statement};mariadbd!log_write_up_to;{futex}")), Log);
        assert_eq!(
            cause(&format!("[waiting];{client};mariadbd!dispatch_command;mariadbd!net_real_write;{futex}")),
            Log
        );
        assert_eq!(cause(&format!("[waiting];{statement};mariadbd!tdc_acquire_share;{futex}")), TableCache);
        assert_eq!(cause(&format!("[waiting];{statement};mariadbd!f;{futex}")), Lock);
        assert_eq!(
            cause(&format!("[waiting];x!start_thread;mariadbd!srv_purge_coordinator_thread;{futex}")),
            IdleBackground
        );
        assert_eq!(cause(&format!("{statement};mariadbd!JOIN::exec;mariadbd!row_search_mvcc")), Work);
        assert_eq!(
            cause(&format!("{statement};mariadbd!net_write_command;libc.so.6!__send;kernel!unix_stream_sendmsg")),
            Network
        );
        assert_eq!(cause(&format!("{statement};mariadbd!x;mariadbd!ut_delay(unsigned int)")), BusyWait);
        assert_eq!(cause("[no stack]"), Unknown);
    }
}
