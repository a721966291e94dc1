// A valgrind tool that writes every load and store of a program to a file, in the order in which they happen.
//
// valgrind's own `lackey --trace-mem=yes` prints the same as text, one system call per line; that takes twenty times as
// long. A record is 16 bytes: the address, and the size in bytes with the kind (1 load, 2 store) in its upper half.

#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"

enum { LOAD = 1, STORE = 2, RECORDS = 1 << 14 };

typedef struct {
    ULong address;
    UInt size_bytes;
    UInt kind;
} Record;

static const HChar *output_path = NULL;
static Int output = -1;
// valgrind runs one thread at a time, so one buffer serves them all.
static Record buffer[RECORDS];
static UInt used = 0;

static void flush(void) {
    const HChar *bytes = (const HChar *)buffer;
    Int left = used * sizeof(Record);
    while (output >= 0 && left > 0) {
        Int written = VG_(write)(output, bytes, left);
        tl_assert2(written > 0, "cannot write accesses");
        bytes += written;
        left -= written;
    }
    used = 0;
}

static VG_REGPARM(3) void note(Addr address, UWord size_bytes, UWord kind) {
    if (used == RECORDS)
        flush();
    buffer[used++] = (Record){address, (UInt)size_bytes, (UInt)kind};
}

// A forked child has a copy of the buffer; what is in it is the parent's to write.
static void forget(ThreadId thread) {
    (void)thread;
    used = 0;
    output = -1;
}

static void add_note(IRSB *block, IRExpr *address, Int size_bytes, UWord kind, IRExpr *guard) {
    IRExpr **arguments = mkIRExprVec_3(address, mkIRExpr_HWord(size_bytes), mkIRExpr_HWord(kind));
    IRDirty *call = unsafeIRDirty_0_N(3, "note", VG_(fnptr_to_fnentry)(&note), arguments);
    if (guard)
        call->guard = guard;
    addStmtToIRSB(block, IRStmt_Dirty(call));
}

static Int size_of(IRTypeEnv *types, IRExpr *value) { return sizeofIRType(typeOfIRExpr(types, value)); }

// Notes what one statement loads or stores.
static void add_notes(IRSB *block, IRTypeEnv *types, const IRStmt *statement) {
    switch (statement->tag) {
    case Ist_WrTmp: {
        const IRExpr *value = statement->Ist.WrTmp.data;
        if (value->tag == Iex_Load)
            add_note(block, value->Iex.Load.addr, sizeofIRType(value->Iex.Load.ty), LOAD, NULL);
        break;
    }
    case Ist_Store:
        add_note(block, statement->Ist.Store.addr, size_of(types, statement->Ist.Store.data), STORE, NULL);
        break;
    case Ist_StoreG: {
        const IRStoreG *store = statement->Ist.StoreG.details;
        add_note(block, store->addr, size_of(types, store->data), STORE, store->guard);
        break;
    }
    case Ist_LoadG: {
        const IRLoadG *load = statement->Ist.LoadG.details;
        IRType widened, loaded;
        typeOfIRLoadGOp(load->cvt, &widened, &loaded);
        add_note(block, load->addr, sizeofIRType(loaded), LOAD, load->guard);
        break;
    }
    case Ist_Dirty: {
        const IRDirty *call = statement->Ist.Dirty.details;
        if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
            add_note(block, call->mAddr, call->mSize, LOAD, call->guard);
        if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
            add_note(block, call->mAddr, call->mSize, STORE, call->guard);
        break;
    }
    case Ist_CAS: {
        const IRCAS *swap = statement->Ist.CAS.details;
        Int size_bytes = size_of(types, swap->dataLo) * (swap->dataHi ? 2 : 1);
        add_note(block, swap->addr, size_bytes, LOAD, NULL);
        add_note(block, swap->addr, size_bytes, STORE, NULL);
        break;
    }
    case Ist_LLSC: {
        IRExpr *stored = statement->Ist.LLSC.storedata;
        IRType type = stored ? typeOfIRExpr(types, stored) : typeOfIRTemp(types, statement->Ist.LLSC.result);
        add_note(block, statement->Ist.LLSC.addr, sizeofIRType(type), stored ? STORE : LOAD, NULL);
        break;
    }
    default:
        break;
    }
}

static IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                        const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word, IRType host_word) {
    IRSB *out = deepCopyIRSBExceptStmts(in);
    for (Int i = 0; i < in->stmts_used; i++) {
        add_notes(out, in->tyenv, in->stmts[i]);
        addStmtToIRSB(out, in->stmts[i]);
    }
    return out;
}

static Bool option(const HChar *argument) {
    if VG_STR_CLO (argument, "--output", output_path) {
    }
    return output_path != NULL;
}

static void usage(void) { VG_(printf)("    --output=<file>           where accesses are written\n"); }

static void no_usage(void) {}

static void begin(void) {
    tl_assert2(output_path, "--output is missing");
    output = VG_(fd_open)(output_path, VKI_O_WRONLY, 0);
    tl_assert2(output >= 0, "cannot open %s", output_path);
    VG_(atfork)(NULL, NULL, forget);
}

static void end(Int exit_code) {
    (void)exit_code;
    flush();
}

static void describe(void) {
    VG_(details_name)("accesses");
    VG_(details_version)(NULL);
    VG_(details_description)("writes every load and store");
    VG_(details_copyright_author)("dwell");
    VG_(details_bug_reports_to)("dwell");
    VG_(details_avg_translation_sizeB)(500);
    VG_(basic_tool_funcs)(begin, instrument, end);
    VG_(needs_command_line_options)(option, usage, no_usage);
}

VG_DETERMINE_INTERFACE_VERSION(describe)
