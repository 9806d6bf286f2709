from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Codec(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODEC_NONE: _ClassVar[Codec]
    CODEC_ZSTD: _ClassVar[Codec]

class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODE_UNSPECIFIED: _ClassVar[Code]
    OK: _ClassVar[Code]
    SEALED: _ClassVar[Code]
    EXECUTION_EXCEPTION: _ClassVar[Code]
    HOLE: _ClassVar[Code]
    CORRUPT: _ClassVar[Code]
    PAUSE: _ClassVar[Code]
    FENCED: _ClassVar[Code]
    REJECTED: _ClassVar[Code]
    GOING_AWAY: _ClassVar[Code]
CODEC_NONE: Codec
CODEC_ZSTD: Codec
CODE_UNSPECIFIED: Code
OK: Code
SEALED: Code
EXECUTION_EXCEPTION: Code
HOLE: Code
CORRUPT: Code
PAUSE: Code
FENCED: Code
REJECTED: Code
GOING_AWAY: Code

class Version(_message.Message):
    __slots__ = ("major", "minor")
    MAJOR_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    major: int
    minor: int
    def __init__(self, major: _Optional[int] = ..., minor: _Optional[int] = ...) -> None: ...

class StreamId(_message.Message):
    __slots__ = ("run", "site", "log")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    run: str
    site: str
    log: str
    def __init__(self, run: _Optional[str] = ..., site: _Optional[str] = ..., log: _Optional[str] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("open", "chunk", "mark", "finish", "news", "leave", "number", "several")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    NEWS_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SEVERAL_FIELD_NUMBER: _ClassVar[int]
    open: Open
    chunk: Chunk
    mark: MarkAt
    finish: Finish
    news: News
    leave: Leave
    number: int
    several: _containers.RepeatedCompositeFieldContainer[PushRequest]
    def __init__(self, open: _Optional[_Union[Open, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ..., mark: _Optional[_Union[MarkAt, _Mapping]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ..., news: _Optional[_Union[News, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ..., number: _Optional[int] = ..., several: _Optional[_Iterable[_Union[PushRequest, _Mapping]]] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class News(_message.Message):
    __slots__ = ("clock_ms", "end", "activity", "health")
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    clock_ms: int
    end: int
    activity: Activity
    health: Health
    def __init__(self, clock_ms: _Optional[int] = ..., end: _Optional[int] = ..., activity: _Optional[_Union[Activity, _Mapping]] = ..., health: _Optional[_Union[Health, _Mapping]] = ...) -> None: ...

class Health(_message.Message):
    __slots__ = ("memory", "memory_max", "memory_peak", "oom_kills", "cores", "throttled", "load", "cpu_pressure", "memory_pressure", "io_pressure", "disk_free", "disk_size", "inodes_free", "inodes", "uptime", "unread", "gpus", "gpu_use", "gpu_least", "gpu_memory", "gpu_memory_max")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MAX_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PEAK_FIELD_NUMBER: _ClassVar[int]
    OOM_KILLS_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    CPU_PRESSURE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PRESSURE_FIELD_NUMBER: _ClassVar[int]
    IO_PRESSURE_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_FIELD_NUMBER: _ClassVar[int]
    DISK_SIZE_FIELD_NUMBER: _ClassVar[int]
    INODES_FREE_FIELD_NUMBER: _ClassVar[int]
    INODES_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_USE_FIELD_NUMBER: _ClassVar[int]
    GPU_LEAST_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_MAX_FIELD_NUMBER: _ClassVar[int]
    memory: int
    memory_max: int
    memory_peak: int
    oom_kills: int
    cores: int
    throttled: int
    load: int
    cpu_pressure: int
    memory_pressure: int
    io_pressure: int
    disk_free: int
    disk_size: int
    inodes_free: int
    inodes: int
    uptime: int
    unread: _containers.RepeatedScalarFieldContainer[str]
    gpus: int
    gpu_use: int
    gpu_least: int
    gpu_memory: int
    gpu_memory_max: int
    def __init__(self, memory: _Optional[int] = ..., memory_max: _Optional[int] = ..., memory_peak: _Optional[int] = ..., oom_kills: _Optional[int] = ..., cores: _Optional[int] = ..., throttled: _Optional[int] = ..., load: _Optional[int] = ..., cpu_pressure: _Optional[int] = ..., memory_pressure: _Optional[int] = ..., io_pressure: _Optional[int] = ..., disk_free: _Optional[int] = ..., disk_size: _Optional[int] = ..., inodes_free: _Optional[int] = ..., inodes: _Optional[int] = ..., uptime: _Optional[int] = ..., unread: _Optional[_Iterable[str]] = ..., gpus: _Optional[int] = ..., gpu_use: _Optional[int] = ..., gpu_least: _Optional[int] = ..., gpu_memory: _Optional[int] = ..., gpu_memory_max: _Optional[int] = ...) -> None: ...

class Activity(_message.Message):
    __slots__ = ("processes", "cpu", "idle_ms", "gpu", "writes", "listens", "waits")
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    LISTENS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    processes: int
    cpu: int
    idle_ms: int
    gpu: int
    writes: str
    listens: str
    waits: str
    def __init__(self, processes: _Optional[int] = ..., cpu: _Optional[int] = ..., idle_ms: _Optional[int] = ..., gpu: _Optional[int] = ..., writes: _Optional[str] = ..., listens: _Optional[str] = ..., waits: _Optional[str] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("version", "stream", "producer", "epoch", "agent", "news", "moves", "several", "news_only", "boot_id", "started_ns")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    NEWS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    SEVERAL_FIELD_NUMBER: _ClassVar[int]
    NEWS_ONLY_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    version: Version
    stream: StreamId
    producer: bytes
    epoch: int
    agent: str
    news: News
    moves: int
    several: bool
    news_only: bool
    boot_id: str
    started_ns: int
    def __init__(self, version: _Optional[_Union[Version, _Mapping]] = ..., stream: _Optional[_Union[StreamId, _Mapping]] = ..., producer: _Optional[bytes] = ..., epoch: _Optional[int] = ..., agent: _Optional[str] = ..., news: _Optional[_Union[News, _Mapping]] = ..., moves: _Optional[int] = ..., several: bool = ..., news_only: bool = ..., boot_id: _Optional[str] = ..., started_ns: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("offset", "digest", "codec", "raw_length", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    RAW_LENGTH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    digest: int
    codec: Codec
    raw_length: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., digest: _Optional[int] = ..., codec: _Optional[_Union[Codec, str]] = ..., raw_length: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class MarkAt(_message.Message):
    __slots__ = ("index", "mark")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    index: int
    mark: Mark
    def __init__(self, index: _Optional[int] = ..., mark: _Optional[_Union[Mark, _Mapping]] = ...) -> None: ...

class Mark(_message.Message):
    __slots__ = ("offset", "digest", "generation", "ended", "gap", "attributes", "exit", "unread", "clock_ms", "at_ms")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    digest: int
    generation: Generation
    ended: Ended
    gap: Gap
    attributes: Attributes
    exit: Exit
    unread: Unread
    clock_ms: int
    at_ms: int
    def __init__(self, offset: _Optional[int] = ..., digest: _Optional[int] = ..., generation: _Optional[_Union[Generation, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., gap: _Optional[_Union[Gap, _Mapping]] = ..., attributes: _Optional[_Union[Attributes, _Mapping]] = ..., exit: _Optional[_Union[Exit, _Mapping]] = ..., unread: _Optional[_Union[Unread, _Mapping]] = ..., clock_ms: _Optional[int] = ..., at_ms: _Optional[int] = ...) -> None: ...

class Generation(_message.Message):
    __slots__ = ("path", "source_offset", "identity", "head_length", "head_digest", "notes")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    HEAD_LENGTH_FIELD_NUMBER: _ClassVar[int]
    HEAD_DIGEST_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    source_offset: int
    identity: str
    head_length: int
    head_digest: int
    notes: str
    def __init__(self, path: _Optional[str] = ..., source_offset: _Optional[int] = ..., identity: _Optional[str] = ..., head_length: _Optional[int] = ..., head_digest: _Optional[int] = ..., notes: _Optional[str] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("length", "reason")
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    length: int
    reason: str
    def __init__(self, length: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Unread(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Attributes(_message.Message):
    __slots__ = ("words",)
    WORDS_FIELD_NUMBER: _ClassVar[int]
    words: str
    def __init__(self, words: _Optional[str] = ...) -> None: ...

class Exit(_message.Message):
    __slots__ = ("process", "status", "signal", "core", "started_ms", "ended_ms", "boot_id", "maxrss", "user_cpu_ms", "sys_cpu_ms", "oom_before", "oom_after", "oom_within_ms", "cgroup", "oom", "until", "cause")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CORE_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    MAXRSS_FIELD_NUMBER: _ClassVar[int]
    USER_CPU_MS_FIELD_NUMBER: _ClassVar[int]
    SYS_CPU_MS_FIELD_NUMBER: _ClassVar[int]
    OOM_BEFORE_FIELD_NUMBER: _ClassVar[int]
    OOM_AFTER_FIELD_NUMBER: _ClassVar[int]
    OOM_WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    CGROUP_FIELD_NUMBER: _ClassVar[int]
    OOM_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    process: str
    status: int
    signal: int
    core: bool
    started_ms: int
    ended_ms: int
    boot_id: str
    maxrss: int
    user_cpu_ms: int
    sys_cpu_ms: int
    oom_before: int
    oom_after: int
    oom_within_ms: int
    cgroup: str
    oom: str
    until: int
    cause: str
    def __init__(self, process: _Optional[str] = ..., status: _Optional[int] = ..., signal: _Optional[int] = ..., core: bool = ..., started_ms: _Optional[int] = ..., ended_ms: _Optional[int] = ..., boot_id: _Optional[str] = ..., maxrss: _Optional[int] = ..., user_cpu_ms: _Optional[int] = ..., sys_cpu_ms: _Optional[int] = ..., oom_before: _Optional[int] = ..., oom_after: _Optional[int] = ..., oom_within_ms: _Optional[int] = ..., cgroup: _Optional[str] = ..., oom: _Optional[str] = ..., until: _Optional[int] = ..., cause: _Optional[str] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ("receipt",)
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    receipt: Receipt
    def __init__(self, receipt: _Optional[_Union[Receipt, _Mapping]] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("length", "digest", "marks", "redacted")
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    length: int
    digest: int
    marks: int
    redacted: Redaction
    def __init__(self, length: _Optional[int] = ..., digest: _Optional[int] = ..., marks: _Optional[int] = ..., redacted: _Optional[_Union[Redaction, _Mapping]] = ...) -> None: ...

class Redaction(_message.Message):
    __slots__ = ("matches", "bytes")
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    matches: int
    bytes: int
    def __init__(self, matches: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("code", "committed", "digest", "marks", "incarnation", "epoch", "reason", "ending", "idle_timeout_ms", "window", "number", "codecs", "pace_ms", "elsewhere", "exits", "name_taken", "call_window", "several")
    CODE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CODECS_FIELD_NUMBER: _ClassVar[int]
    PACE_MS_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    EXITS_FIELD_NUMBER: _ClassVar[int]
    NAME_TAKEN_FIELD_NUMBER: _ClassVar[int]
    CALL_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SEVERAL_FIELD_NUMBER: _ClassVar[int]
    code: Code
    committed: int
    digest: int
    marks: int
    incarnation: bytes
    epoch: int
    reason: str
    ending: bool
    idle_timeout_ms: int
    window: int
    number: int
    codecs: _containers.RepeatedScalarFieldContainer[Codec]
    pace_ms: int
    elsewhere: bool
    exits: bool
    name_taken: bool
    call_window: int
    several: _containers.RepeatedCompositeFieldContainer[Reply]
    def __init__(self, code: _Optional[_Union[Code, str]] = ..., committed: _Optional[int] = ..., digest: _Optional[int] = ..., marks: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ..., ending: bool = ..., idle_timeout_ms: _Optional[int] = ..., window: _Optional[int] = ..., number: _Optional[int] = ..., codecs: _Optional[_Iterable[_Union[Codec, str]]] = ..., pace_ms: _Optional[int] = ..., elsewhere: bool = ..., exits: bool = ..., name_taken: bool = ..., call_window: _Optional[int] = ..., several: _Optional[_Iterable[_Union[Reply, _Mapping]]] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("stream", "start", "follow", "marks", "first_mark", "sieve", "stop", "count")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    FIRST_MARK_FIELD_NUMBER: _ClassVar[int]
    SIEVE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    stream: StreamId
    start: int
    follow: bool
    marks: bool
    first_mark: int
    sieve: Sieve
    stop: int
    count: Count
    def __init__(self, stream: _Optional[_Union[StreamId, _Mapping]] = ..., start: _Optional[int] = ..., follow: bool = ..., marks: bool = ..., first_mark: _Optional[int] = ..., sieve: _Optional[_Union[Sieve, _Mapping]] = ..., stop: _Optional[int] = ..., count: _Optional[_Union[Count, _Mapping]] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: int
    def __init__(self, digest: _Optional[int] = ...) -> None: ...

class Sieve(_message.Message):
    __slots__ = ("any_of", "ignore_case", "before", "after")
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    IGNORE_CASE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    any_of: _containers.RepeatedScalarFieldContainer[bytes]
    ignore_case: bool
    before: int
    after: int
    def __init__(self, any_of: _Optional[_Iterable[bytes]] = ..., ignore_case: bool = ..., before: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("offset", "mark", "counted", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    mark: MarkAt
    counted: Counted
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., mark: _Optional[_Union[MarkAt, _Mapping]] = ..., counted: _Optional[_Union[Counted, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Counted(_message.Message):
    __slots__ = ("end", "digest", "lines", "colours")
    END_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    COLOURS_FIELD_NUMBER: _ClassVar[int]
    end: int
    digest: int
    lines: _containers.RepeatedScalarFieldContainer[int]
    colours: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, end: _Optional[int] = ..., digest: _Optional[int] = ..., lines: _Optional[_Iterable[int]] = ..., colours: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("run", "site", "one_a_site", "after", "limit", "times_ms", "within_ms", "several", "unstored")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    ONE_A_SITE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TIMES_MS_FIELD_NUMBER: _ClassVar[int]
    WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    SEVERAL_FIELD_NUMBER: _ClassVar[int]
    UNSTORED_FIELD_NUMBER: _ClassVar[int]
    run: str
    site: str
    one_a_site: bool
    after: StreamId
    limit: int
    times_ms: _containers.RepeatedScalarFieldContainer[int]
    within_ms: int
    several: bool
    unstored: bool
    def __init__(self, run: _Optional[str] = ..., site: _Optional[str] = ..., one_a_site: bool = ..., after: _Optional[_Union[StreamId, _Mapping]] = ..., limit: _Optional[int] = ..., times_ms: _Optional[_Iterable[int]] = ..., within_ms: _Optional[int] = ..., several: bool = ..., unstored: bool = ...) -> None: ...

class StreamInfo(_message.Message):
    __slots__ = ("stream", "first", "committed", "digest", "sealed", "marks", "first_mark", "redacted", "state", "begun_ms", "grown_ms", "sealed_ms", "lengths", "several", "unstored", "about", "damage")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    FIRST_MARK_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    GROWN_MS_FIELD_NUMBER: _ClassVar[int]
    SEALED_MS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    SEVERAL_FIELD_NUMBER: _ClassVar[int]
    UNSTORED_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FIELD_NUMBER: _ClassVar[int]
    stream: StreamId
    first: int
    committed: int
    digest: int
    sealed: bool
    marks: _containers.RepeatedCompositeFieldContainer[Mark]
    first_mark: int
    redacted: Redaction
    state: State
    begun_ms: int
    grown_ms: int
    sealed_ms: int
    lengths: _containers.RepeatedScalarFieldContainer[int]
    several: _containers.RepeatedScalarFieldContainer[bytes]
    unstored: str
    about: str
    damage: str
    def __init__(self, stream: _Optional[_Union[StreamId, _Mapping]] = ..., first: _Optional[int] = ..., committed: _Optional[int] = ..., digest: _Optional[int] = ..., sealed: bool = ..., marks: _Optional[_Iterable[_Union[Mark, _Mapping]]] = ..., first_mark: _Optional[int] = ..., redacted: _Optional[_Union[Redaction, _Mapping]] = ..., state: _Optional[_Union[State, _Mapping]] = ..., begun_ms: _Optional[int] = ..., grown_ms: _Optional[int] = ..., sealed_ms: _Optional[int] = ..., lengths: _Optional[_Iterable[int]] = ..., several: _Optional[_Iterable[bytes]] = ..., unstored: _Optional[str] = ..., about: _Optional[str] = ..., damage: _Optional[str] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("linked", "changed_ms", "heard_ms", "grown_ms", "idle_timeout_ms", "held", "rate", "end", "skew_ms", "activity", "health", "receiver")
    LINKED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    HEARD_MS_FIELD_NUMBER: _ClassVar[int]
    GROWN_MS_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SKEW_MS_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    linked: bool
    changed_ms: int
    heard_ms: int
    grown_ms: int
    idle_timeout_ms: int
    held: str
    rate: int
    end: int
    skew_ms: int
    activity: Activity
    health: Health
    receiver: str
    def __init__(self, linked: bool = ..., changed_ms: _Optional[int] = ..., heard_ms: _Optional[int] = ..., grown_ms: _Optional[int] = ..., idle_timeout_ms: _Optional[int] = ..., held: _Optional[str] = ..., rate: _Optional[int] = ..., end: _Optional[int] = ..., skew_ms: _Optional[int] = ..., activity: _Optional[_Union[Activity, _Mapping]] = ..., health: _Optional[_Union[Health, _Mapping]] = ..., receiver: _Optional[str] = ...) -> None: ...

class RunRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class RunResponse(_message.Message):
    __slots__ = ("state", "version", "clock_ms", "agent")
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    state: str
    version: Version
    clock_ms: int
    agent: str
    def __init__(self, state: _Optional[str] = ..., version: _Optional[_Union[Version, _Mapping]] = ..., clock_ms: _Optional[int] = ..., agent: _Optional[str] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class RunInfo(_message.Message):
    __slots__ = ("run", "state", "sites", "streams", "open", "sealed", "bytes", "gaps", "begun_ms", "grown_ms", "failed", "unstored", "unended", "unseen", "job", "lost", "unverified")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    GROWN_MS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    UNSTORED_FIELD_NUMBER: _ClassVar[int]
    UNENDED_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    UNVERIFIED_FIELD_NUMBER: _ClassVar[int]
    run: str
    state: str
    sites: int
    streams: int
    open: int
    sealed: int
    bytes: int
    gaps: int
    begun_ms: int
    grown_ms: int
    failed: int
    unstored: int
    unended: int
    unseen: int
    job: str
    lost: int
    unverified: int
    def __init__(self, run: _Optional[str] = ..., state: _Optional[str] = ..., sites: _Optional[int] = ..., streams: _Optional[int] = ..., open: _Optional[int] = ..., sealed: _Optional[int] = ..., bytes: _Optional[int] = ..., gaps: _Optional[int] = ..., begun_ms: _Optional[int] = ..., grown_ms: _Optional[int] = ..., failed: _Optional[int] = ..., unstored: _Optional[int] = ..., unended: _Optional[int] = ..., unseen: _Optional[int] = ..., job: _Optional[str] = ..., lost: _Optional[int] = ..., unverified: _Optional[int] = ...) -> None: ...

class RemoveRunRequest(_message.Message):
    __slots__ = ("run", "site", "force")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    run: str
    site: str
    force: bool
    def __init__(self, run: _Optional[str] = ..., site: _Optional[str] = ..., force: bool = ...) -> None: ...

class RemoveRunResponse(_message.Message):
    __slots__ = ("streams", "bytes")
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    streams: int
    bytes: int
    def __init__(self, streams: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class TimelineRequest(_message.Message):
    __slots__ = ("run", "site", "points")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    run: str
    site: str
    points: int
    def __init__(self, run: _Optional[str] = ..., site: _Optional[str] = ..., points: _Optional[int] = ...) -> None: ...

class FindingsRequest(_message.Message):
    __slots__ = ("run", "site", "all")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    run: str
    site: str
    all: bool
    def __init__(self, run: _Optional[str] = ..., site: _Optional[str] = ..., all: bool = ...) -> None: ...

class Found(_message.Message):
    __slots__ = ("stream", "seen", "more", "zone", "findings")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    stream: StreamId
    seen: int
    more: int
    zone: str
    findings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, stream: _Optional[_Union[StreamId, _Mapping]] = ..., seen: _Optional[int] = ..., more: _Optional[int] = ..., zone: _Optional[str] = ..., findings: _Optional[_Iterable[str]] = ...) -> None: ...

class Moments(_message.Message):
    __slots__ = ("site", "log", "moments", "grown_ms", "lengths")
    SITE_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    MOMENTS_FIELD_NUMBER: _ClassVar[int]
    GROWN_MS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    site: str
    log: str
    moments: _containers.RepeatedCompositeFieldContainer[Moment]
    grown_ms: _containers.RepeatedScalarFieldContainer[int]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, site: _Optional[str] = ..., log: _Optional[str] = ..., moments: _Optional[_Iterable[_Union[Moment, _Mapping]]] = ..., grown_ms: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ...) -> None: ...

class Moment(_message.Message):
    __slots__ = ("at_ms", "what", "length", "mark", "why", "health", "count", "logs", "since_ms")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    what: str
    length: int
    mark: Mark
    why: str
    health: Health
    count: int
    logs: _containers.RepeatedScalarFieldContainer[str]
    since_ms: int
    def __init__(self, at_ms: _Optional[int] = ..., what: _Optional[str] = ..., length: _Optional[int] = ..., mark: _Optional[_Union[Mark, _Mapping]] = ..., why: _Optional[str] = ..., health: _Optional[_Union[Health, _Mapping]] = ..., count: _Optional[int] = ..., logs: _Optional[_Iterable[str]] = ..., since_ms: _Optional[int] = ...) -> None: ...
