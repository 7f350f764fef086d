"""The numbers that a client can meet or that more than one module needs, each once, with its reason.

Laws: no such number stands anywhere else; what one module alone needs stands at its head. What a user may change is a
setting whose default stands here. Sizes are bytes, times seconds on the monotonic clock unless the name ends in `_MS`.
"""

PROTOCOL = 1
"""Version of the wire protocol (docs/protocol.md)."""

MAX_FRAME = 1 << 20
"""One line on the wire, newline included: large enough for any text, small enough that a peer's buffer stays
bounded."""
MAX_BODY = MAX_FRAME - (16 << 10)
"""A body as UTF-8: leaves room in the delivering frame for the sender's name, folder and the rest of the header."""
MAX_SKIP = 16 << 20
"""How much of an over-long line is read and thrown away to find its end and say its size, before the link is closed."""
LOOKUPS_PER_LINK = 3
"""Requests of one peer that wait for the store at once; further frames wait unread. Their answers fit into its outbox
even at their largest."""
FRAME_WEIGHT = 1 << 10
"""Bytes that a frame counts for while a slow commit runs, besides its answer: what it left to be stored gathers."""
FRAMES_PER_TURN = 64
"""Frames of one peer handled before other tasks get their turn."""
READ_SIZE = 32 << 10
"""One read from a peer."""
OUTBOX_BYTES = 4 << 20
"""Unsent bytes for one peer beyond which it is cut off: it does not read what it asked for."""
OUTBOX_PAUSE = 256 << 10
"""Unsent bytes for one peer beyond which nothing more is read from it."""

FIRST_FRAME_S = 5.0
"""A connection that has not said hello by then is closed."""
GRACE_S = 30.0
"""A broken link may come back: a shim's restart, a broker's restart."""
RELEASE_PAUSE_S = 1.0
"""What a link gave back is pushed to it again after this, so that one which cannot place it now does not spin."""
PING_AFTER_S = 5.0
"""A session that was heard less long ago than this is not asked whether it still answers."""
PONG_WITHIN_S = 2.0
"""An unanswered ping makes a session `unresponsive`."""
STALLED_AFTER_S = 60.0
"""`handed` without evidence for this long is reported."""
STUCK_AFTER_MS = 600 * 1000
"""Mail that a session leaves for this long while it works is not on its way to it: no tool call takes longer."""
STOP_WITHIN_S = 5.0
"""A graceful stop is bounded."""
HANDOVER_RETRY_S = 0.2
"""When to ask again while a broker hands over: its successor needs about that long to listen to what waits."""
SUCCESSOR_WITHIN_S = 20.0
"""How long a successor may take to say that it could go on: it imports all of itself, perhaps from a cold disk."""

MAX_NAME = 64
"""Characters of a name."""
MIN_REF = 6
"""Hex digits of a ref."""
MAX_LABEL = 200
"""Characters of a label, title or summary; longer ones are refused (summary) or shortened (what a harness reports)."""
MAX_PATH = 4096
"""Bytes of a folder as reported, in JSON."""
MAX_KEY = 200
"""Characters of an idempotency key, and of a harness's own id of a conversation."""
MAX_HARNESS = 64
"""Characters of a harness's name as reported."""
MAX_ADDRESS = 256
"""Characters of an address: a name with a ref, or an id of whatever kind."""
REMEMBERED_KEYS = 4096
"""Keys kept in memory: of sends that the store may not have been asked about yet."""
MAX_CANDIDATES = 8
"""Candidates named in one refusal."""

QUEUE_PER_SESSION = 50
"""Messages waiting for one receiver."""
QUEUE_BYTES_PER_SESSION = 16 << 20
"""Bytes waiting for one receiver, so that 50 of the largest bodies do not fill the broker's memory."""
LOG_BYTES = 4 << 20
"""Texts that one question to the log reads: more than an answer holds, since who asks may not see all of them."""
TAKE_MAX = 50
"""Messages in one batch."""
PUSH_WINDOW = 64
"""Pushed and not acknowledged on one link."""
LINKS_PER_SESSION = 8
"""Connections to one session's private socket at once: the shim, its hooks, a plugin."""
HELD_PER_SESSION = 100
"""Messages held for one receiver; the newcomer is refused, nothing is evicted."""
HOLD_EXPIRY_MS = 3600 * 1000
"""How long a hold by parity waits for a human."""
MAX_REASON = 500
"""Characters of the reason of a denial."""
INTRODUCED_MOST = 256
"""Sessions that registered and have not attached yet: each costs a socket. A shim needs milliseconds for it."""
FILES_PER_SESSION = 4
"""Descriptors for each running session: its connection, its listening socket, its watched process, and one towards
all else: newcomers, scripts, the store."""
SESSIONS_MOST = 16384
"""Running sessions: OPEN_FILES divided so. Where the system gives the broker fewer descriptors there are fewer."""
CHARGES_MOST = 1000
"""Rows of one answer about who holds what: the heaviest, within a frame."""
WATCHES_PER_SESSION = 32
"""Sessions of which one asker waits to hear that they are idle."""
WATCH_MS = 12 * 3600 * 1000
"""How long it waits for that."""
IDLE_SETTLE_S = 2.0
"""A session is idle when it has been so for this long: a harness may go on by itself right after a turn's end."""
UNAVAILABLE_AFTER_S = 60.0
"""How long a session that is watched may leave open whether its harness tells when it is busy: it came back, and what
it has to say takes a moment."""
RESUME_WITHIN_S = 45.0
"""How long a conversation may take to be there once its command was started: harnesses need some 10 s, and the sender's
own wait ends at 60 s in some."""
RESUME_PAUSE_S = 10.0
"""After a failed attempt the next message does not start another for so long."""
RESUMES_AT_ONCE = 4
"""Conversations that are being started: each is a whole harness."""
RECENT_SENDS = 1000
"""What `check` without an id shows."""
LOG_MOST = 10_000
"""Entries that one question to the log asks for."""
MAX_WAIT_S = 120.0
"""Longest wait for a reply; shims ask for less than their harness's own timeout."""

TARGET_BURST, TARGET_PER_SECOND = 30.0, 0.5
"""Token bucket of one sender to one target."""
SENDER_BURST, SENDER_PER_SECOND = 60.0, 1.0
"""Token bucket of one sender to all."""
DUPLICATE_WINDOW_S = 30.0
"""The same text to the same target within this time is a repeat."""
MAX_HOPS = 16
"""Messages in a row that may each cause the next: eight questions with their answers, and a ring of any size ends."""
EXCHANGE_PER_MINUTE, EXCHANGE_WINDOW_S = 10, 60.0
"""Caused messages between two sessions, either way, in a window: more than two models say to each other that think
before they answer."""
CAUSE_KEPT_S, CAUSE_KEPT_MS = 600.0, 600_000
"""How long a message may be what a session acts on, from when it was read or from the end of the turn that it entered:
longer than the pause of a ring that is worth stopping, and short beside a working day."""

KEEP_MS = 7 * 24 * 3600 * 1000
"""How long a conversation that ended keeps what it had not taken, and a final message stays in the store."""
OLD_MS = 3600 * 1000
"""A text older than this at delivery says so."""

SHIM_LINE = 8 << 20
"""One line from a harness: a body of MAX_BODY with every character escaped still fits, and is refused with its size."""
SHIM_INBOX_PAUSE = 1 << 20
"""Unwritten bytes for a harness beyond which its requests are not read: it does not read what it asked for."""
SHIM_PROBE_S = 1.0
"""How long a client that only asked what the server speaks is taken for a probe and not for a session."""
SHIM_BROKER_S = 10.0
"""How long a tool call waits for a broker, which may have to be started, before it answers that there is none."""
SHIM_ANSWER_S = 30.0
"""How long a tool call waits for the broker's answer, on top of a wait for a reply that it asked for."""
SHIM_BEAT_S = 10.0
"""How often a client that wants to know hears that a call goes on: opencode gives a silent one up after 60 s."""
SHIM_RETRY_FIRST_S, SHIM_RETRY_MOST_S = 0.05, 2.0
"""Pause between two attempts to reach the broker; it doubles."""
SHIM_RETRY_NEEDED_S = 0.2
"""Longest pause while a tool call waits for the broker, that is for SHIM_BROKER_S at most."""
SHIM_STEADY_S = 1.0
"""A link that lasted so long was a good one: the next loss begins with the shortest pause again."""
SHIM_HANDSHAKE_S = 5.0
"""Introduction and attaching; a broker that takes longer is tried again."""
SHIM_DRAIN_S, SHIM_END_S = 1.0, 0.5
"""After the end of its input a shim finishes what runs, then says goodbye to the broker: together well below 2 s."""
SHIM_MAIL_BYTES = 48 << 10
"""Mail that one tool result carries: harnesses cut or refuse results of some 100 KB. The first message always goes
whole."""
SHIM_REMEMBERED_IDS = 1024
"""Messages that a shim knows it has shown: more than can be leased at once."""
SHIM_TOOL_USES, SHIM_TOOL_USE_ID = 256, 128
"""Calls that a shim knows to be a subagent's, and the characters of such an id: more than are on their way at once, and
longer than the ids of any API."""
SHIM_SENT_TEXT_BYTES = 200
"""The text that answers a send."""

EVENTS_PER_TURN = 64
"""Ready descriptors (processes that ended, sockets with newcomers) handled before other tasks get their turn."""
ACCEPTS_PER_TURN = 16
"""Connections taken from one listening socket before others get their turn."""
BACKLOG = 128
"""Connections that the kernel keeps for one listening socket until they are taken."""
MAX_CONNECTIONS = 1024
"""Open connections of the rendezvous; for a further one, the process that has the most loses its oldest."""
CONNECT_BURST, CONNECTS_PER_SECOND = 1024.0, 256.0
"""Token bucket of new connections: of one session or one tree of processes at the rendezvous, of one process at a
session's private socket. As many at once as may be open; then several times what a shell's commands on all processors
come to, of which each takes 30 ms and more. To find out who came takes
0.2 ms and more, to turn it away a tenth of that: what is let in of a flood takes some 5 % of the loop."""
DOOR_CONNECTIONS = 4 * LINKS_PER_SESSION
"""The same for a session's private socket. Links that attached are not touched."""
ACCEPT_RETRY_S = 0.1
"""Pause of a listening socket after the machine had no descriptor or memory left for a connection."""
OPEN_FILES = 65536
"""Descriptors that the broker asks for: three for each of some thousands of sessions."""
EXIT_POLL_S = 0.5
"""How often a process is looked at where its end cannot be waited for (Linux before 5.3)."""
LOCK_WAIT_S = 5.0
"""How long a starting broker waits for one that is dying to let go of its locks."""
REMAKE_RETRY_S, REMAKE_RETRY_MAX_S = 0.5, 30.0
"""First and longest pause between attempts to make a lost runtime directory again; a change there ends a pause."""

SLOW_COMMIT_S = 0.002
"""A commit that takes longer than this on average goes to a thread: a hop costs 70 µs, a blocked loop costs
everybody."""
COMMIT_PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Before further tries of a commit that failed over what may pass (a lock, a full disk): longer than a program that
only looks at the store holds its lock, short beside a sender's patience."""
STORE_RETRY_S = 5.0
"""When one who was refused for such a failure may try again, and how long a start waits for it to pass."""
CHECKPOINT_BYTES = 4 << 20
"""Size of the store's log at which it is moved into the main file."""
LAZY_S = 0.02
"""How long an operation that nobody waits for may wait for company. Long beside a commit, short beside a restart."""
FINISH_LOOK_S = 0.005
"""How often the end looks whether the last commit is done; only a slow or failing disk makes it look twice."""
OWED_MOST = 100_000
"""Operations that a failing store may owe us before the oldest are given up."""
