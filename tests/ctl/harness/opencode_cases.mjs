/**
 * Cases of opencode's plugin against a client and a bridge that do as they are told; run by test_opencode_plugin.py as
 * `node opencode_cases.mjs PLUGIN`, and by the plugin itself as its bridge. A case that passed is a line with its name;
 * the first that fails ends the run.
 *
 * Nothing waits for time to pass: a case waits for a line that the bridge got.
 */
import assert from "node:assert/strict"
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const SELF = fileURLToPath(import.meta.url)
const TOOL = { name: "xsession_send_message", description: "Sends.", inputSchema: { type: "object", properties: { to: { type: "string" } }, required: ["to"] } }
const DIRECTORY = "/src/api"

// -- the bridge -------------------------------------------------------------------------------------------------------

/** Writes each line to a file, answers `hello` and `call`, and does what the arguments of a call say. */
function runBridge(log) {
  const write = (frame) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...frame }) + "\n")
  let calling = null
  createInterface({ input: process.stdin }).on("line", (line) => {
    const frame = JSON.parse(line)
    appendFileSync(log, line + "\n")
    if (frame.method === "hello") {
      const resume = process.env.CASE_RESUME ? JSON.parse(process.env.CASE_RESUME) : null
      if (!process.env.CASE_MUTE) write({ id: frame.id, result: { protocol: 1, tools: [TOOL], resume } })
    } else if (frame.method === "call") {
      const wish = frame.params.arguments
      if (wish.die) process.exit(1)
      else if (wish.refuse) write({ id: frame.id, error: { code: -32000, message: wish.refuse } })
      else if (wish.hang) return
      else if (wish.post !== undefined) {
        calling = frame.id
        write({ id: 77, method: "post", params: { session: wish.session ?? frame.params.session, text: wish.post, quiet: wish.quiet } })
      } else write({ id: frame.id, result: { text: "SENT " + (wish.long ? "x".repeat(wish.long) : ""), isError: false } })
    } else if (frame.id === 77) {
      const outcome = frame.error ? `${frame.error.data.code}: ${frame.error.message}` : "posted"
      write({ id: calling, result: { text: outcome, isError: false } })
    }
  })
}

// -- what a case has --------------------------------------------------------------------------------------------------

let log = ""

/** The frames that bridges got so far. */
const lines = () => (existsSync(log) ? readFileSync(log, "utf8").split("\n").filter(Boolean).map(JSON.parse) : [])

/** The nth frame of this method; waits until it is there. */
async function frame(method, nth = 1) {
  for (;;) {
    const found = lines().filter((line) => line.method === method)
    if (found.length >= nth) return found[nth - 1].params
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** A client with these sessions; `prompts` and `logged` are what it was called with. */
function makeClient(sessions) {
  const client = { prompts: [], logged: [], sessions, refusal: null }
  client.session = {
    get: async ({ path }) => (sessions[path.id] ? { data: { id: path.id, directory: DIRECTORY, ...sessions[path.id] } } : { error: { name: "NotFoundError" } }),
    list: async () => ({ data: Object.entries(sessions).map(([id, info]) => ({ id, directory: DIRECTORY, ...info })) }),
    promptAsync: async (request) => {
      client.prompts.push(request)
      return client.refusal ? { error: client.refusal } : { data: undefined }
    },
  }
  client.app = { log: async ({ body }) => void client.logged.push(body.message) }
  return client
}

async function load(client, { directory = DIRECTORY, command = [process.execPath, SELF, "--bridge", log] } = {}) {
  const { default: plugin } = await import(`${process.argv[2]}?${log}`) // a module of its own, as in a process of its own
  return plugin({ client, directory }, { command })
}

const user = (sessionID, id, text, more = {}) => [{ sessionID }, { message: { id, sessionID, role: "user", agent: "build", model: { providerID: "p", modelID: "m" }, ...more }, parts: [{ type: "text", text }] }]
const event = (type, properties) => ({ event: { type, properties } })
const created = (id, info = {}) => event("session.created", { info: { id, directory: DIRECTORY, title: "New session - 2026-01-01T00:00:00.000Z", ...info } })
const context = (sessionID, more = {}) => ({ sessionID, callID: "call-1", abort: new AbortController().signal, ask: async () => {}, ...more })
const call = (hooks, args, sessionID = "ses_a", more = {}) => hooks.tool[TOOL.name].execute(args, context(sessionID, more))

// -- the cases --------------------------------------------------------------------------------------------------------

const CASES = {
  async "a session and its turns are told in order"() {
    const hooks = await load(makeClient({}))
    await hooks.event(created("ses_a"))
    await hooks["chat.message"](...user("ses_a", "msg_1", "hello"))
    await hooks.event(event("session.status", { sessionID: "ses_a", status: { type: "busy" } }))
    await hooks.event(event("message.updated", { info: { id: "msg_2", parentID: "msg_1", role: "assistant", sessionID: "ses_a" } }))
    await hooks.event(event("message.updated", { info: { id: "msg_2", parentID: "msg_1", role: "assistant", sessionID: "ses_a", finish: "stop" } }))
    await hooks.event(event("session.status", { sessionID: "ses_a", status: { type: "idle" } }))
    await frame("state", 2)
    assert.deepEqual(lines().map((line) => [line.method, line.params]), [
      ["hello", { protocol: 1 }],
      ["opened", { session: "ses_a", directory: DIRECTORY, title: "New session - 2026-01-01T00:00:00.000Z", state: "idle", undone: false }],
      ["prompted", { session: "ses_a", message: "msg_1", post: null, by: "human" }],
      ["state", { session: "ses_a", state: "busy" }],
      ["stepped", { session: "ses_a", parent: "msg_1" }],
      ["state", { session: "ses_a", state: "idle" }],
    ])
  },

  async "what asks the user makes the session wait, also below it"() {
    const hooks = await load(makeClient({}))
    await hooks.event(created("ses_a"))
    await hooks.event(created("ses_child", { parentID: "ses_a" }))
    await hooks.event(event("session.status", { sessionID: "ses_a", status: { type: "busy" } }))
    await hooks.event(event("permission.asked", { sessionID: "ses_child", id: "per_1" }))
    await hooks.event(event("question.asked", { sessionID: "ses_a", id: "que_1" }))
    await hooks.event(event("permission.replied", { sessionID: "ses_child", requestID: "per_1" }))
    await hooks.event(event("question.rejected", { sessionID: "ses_a", requestID: "que_1" }))
    await frame("state", 3)
    assert.deepEqual(lines().filter((line) => line.method === "state").map((line) => line.params.state), ["busy", "waiting", "busy"])
    assert.equal(lines().filter((line) => line.method === "opened").length, 1)
  },

  async "a text is posted whole, as the session was prompted, and known again"() {
    const client = makeClient({ ses_a: { agent: "plan", model: { providerID: "p", id: "m2", variant: "high" } } })
    const hooks = await load(client)
    await hooks["chat.message"](...user("ses_a", "msg_1", "hello", { system: "Be brief.", format: { type: "text" } }))
    await hooks.event(event("session.status", { sessionID: "ses_a", status: { type: "busy" } }))
    const text = "@README.md /exit\n" + "é".repeat(500_000)
    assert.equal(await call(hooks, { post: text }), "posted")
    assert.deepEqual(client.prompts, [{
      path: { id: "ses_a" },
      body: { agent: "plan", model: { providerID: "p", modelID: "m2" }, variant: "high", system: "Be brief.", format: { type: "text" }, parts: [{ type: "text", text }] },
    }])
    await hooks["chat.message"](...user("ses_a", "msg_2", text))
    await hooks["chat.message"](...user("ses_a", "msg_3", text))
    await frame("prompted", 3)
    assert.deepEqual(lines().filter((line) => line.method === "prompted").map(({ params }) => [params.message, params.post, params.by]), [
      ["msg_1", null, "human"],
      ["msg_2", 77, "mail"],
      ["msg_3", null, "human"], // the user typed the very same
    ])
  },

  async "an empty text prompts with nothing"() {
    const client = makeClient({ ses_a: {} })
    const hooks = await load(client)
    await hooks.event(created("ses_a"))
    assert.equal(await call(hooks, { post: "" }), "posted")
    assert.deepEqual(client.prompts[0].body, { parts: [] })
    await hooks["chat.message"]({ sessionID: "ses_a" }, { message: { id: "msg_1", sessionID: "ses_a" }, parts: [] })
    assert.equal((await frame("prompted")).by, "mail")
  },

  async "a quiet text starts no turn"() {
    const client = makeClient({ ses_a: {} })
    const hooks = await load(client)
    await hooks.event(created("ses_a"))
    assert.equal(await call(hooks, { post: "hm", quiet: true }), "posted")
    assert.deepEqual(client.prompts[0].body, { noReply: true, parts: [{ type: "text", text: "hm" }] })
  },

  async "what opencode prompts by itself is no human's"() {
    const hooks = await load(makeClient({ ses_a: {} }))
    const [input, output] = user("ses_a", "msg_1", "Background task completed")
    output.parts[0].synthetic = true
    await hooks["chat.message"](input, output)
    assert.equal((await frame("prompted")).by, "other")
  },

  async "nothing is posted where it cannot be, or where it would lose what the user has undone"() {
    const client = makeClient({ ses_a: {} })
    const hooks = await load(client)
    await hooks.event(created("ses_a"))
    assert.match(await call(hooks, { post: "hm", session: "ses_b" }), /^gone: /)
    client.sessions.ses_a.revert = { messageID: "msg_1" }
    assert.match(await call(hooks, { post: "hm" }), /^refused: /)
    assert.deepEqual(client.prompts, [])
    delete client.sessions.ses_a.revert
    client.refusal = { data: { message: "no such model" } }
    assert.match(await call(hooks, { post: "hm" }), /^gone: .*no such model/)
    delete client.sessions.ses_a
    assert.match(await call(hooks, { post: "hm" }), /^gone: /)
  },

  async "what the user has undone is told, and when it is back"() {
    const hooks = await load(makeClient({}))
    await hooks.event(created("ses_a", { revert: { messageID: "msg_1" } }))
    const changed = (revert) => hooks.event(event("session.updated", { info: { id: "ses_a", directory: DIRECTORY, title: "x", revert } }))
    await changed(undefined)
    await changed(undefined)
    await changed({ messageID: "msg_2" })
    await frame("undone", 2)
    assert.equal((await frame("opened")).undone, true)
    assert.deepEqual(lines().slice(2).map((line) => line.params.undone), [false, true])
  },

  async "what is taken away is told"() {
    const hooks = await load(makeClient({}))
    const removed = (sessionID) => hooks.event(event("message.removed", { sessionID, messageID: "msg_1" }))
    await removed("ses_a") // of a session that nobody has heard of
    await hooks.event(created("ses_a"))
    await removed("ses_a")
    assert.deepEqual(await frame("removed"), { session: "ses_a", message: "msg_1" })
    assert.deepEqual(lines().map(({ method }) => method), ["hello", "opened", "removed"])
  },

  async "a subagent's call is its session's, and says so"() {
    const hooks = await load(makeClient({ ses_a: {}, ses_b: { parentID: "ses_a" }, ses_c: { parentID: "ses_b" } }))
    await call(hooks, { to: "web" }, "ses_c")
    await call(hooks, { to: "web" }, "ses_a")
    assert.deepEqual(lines().map(({ method, params }) => [method, params.session, params.subagent]), [
      ["hello", undefined, undefined],
      ["opened", "ses_a", undefined],
      ["call", "ses_a", true],
      ["call", "ses_a", false],
    ])
  },

  async "a subagent's turns are not told"() {
    const hooks = await load(makeClient({ ses_a: {}, ses_b: { parentID: "ses_a" } }))
    await hooks["chat.message"](...user("ses_b", "msg_1", "look there"))
    await hooks.event(event("session.status", { sessionID: "ses_b", status: { type: "busy" } }))
    await hooks.event(event("message.updated", { info: { id: "msg_2", parentID: "msg_1", role: "assistant", sessionID: "ses_b" } }))
    await hooks.event(event("session.status", { sessionID: "ses_b", status: { type: "idle" } }))
    await hooks.event(created("ses_d"))
    await frame("opened")
    assert.deepEqual(lines().map((line) => line.method), ["hello", "opened"])
  },

  async "the model is shown the whole schema, and a long result whole"() {
    const hooks = await load(makeClient({ ses_a: {} }))
    const shown = { description: "x", parameters: {}, jsonSchema: {} }
    await hooks["tool.definition"]({ toolID: TOOL.name }, shown)
    assert.deepEqual(shown.jsonSchema, TOOL.inputSchema)
    await hooks["tool.definition"]({ toolID: "bash" }, shown)
    assert.deepEqual(hooks.tool[TOOL.name].args, {})
    const text = await call(hooks, { long: 200_000 })
    const output = { title: "", output: text.slice(0, 1000) + "… cut", metadata: { truncated: true } }
    await hooks["tool.execute.after"]({ tool: TOOL.name, sessionID: "ses_a", callID: "call-1" }, output)
    assert.equal(output.output, text)
    const other = { output: "ls" }
    await hooks["tool.execute.after"]({ tool: "bash", sessionID: "ses_a", callID: "call-2" }, other)
    assert.equal(other.output, "ls")
  },

  async "a permission that the user refuses is no call"() {
    const hooks = await load(makeClient({ ses_a: {} }))
    const asked = []
    const ask = async (request) => {
      asked.push(request)
      throw new Error("rejected")
    }
    await assert.rejects(call(hooks, { to: "web" }, "ses_a", { ask }), /rejected/)
    assert.equal(asked[0].permission, TOOL.name)
    assert.deepEqual(lines().map((line) => line.method), ["hello"])
  },

  async "a call that is aborted is cancelled"() {
    const hooks = await load(makeClient({ ses_a: {} }))
    const abort = new AbortController()
    const pending = call(hooks, { hang: true }, "ses_a", { abort: abort.signal })
    await frame("call")
    abort.abort()
    assert.deepEqual(await frame("cancel"), { id: lines().find((line) => line.method === "call").id })
    assert.match(await pending, /cancelled/)
  },

  async "a bridge that dies is started again and told everything"() {
    const client = makeClient({ ses_a: {} })
    const hooks = await load(client)
    await hooks.event(created("ses_a"))
    await hooks.event(event("session.status", { sessionID: "ses_a", status: { type: "busy" } }))
    assert.match(await call(hooks, { die: true }), /^error: .*being made again/)
    const opened = await frame("opened", 2)
    assert.equal(opened.state, "busy")
    assert.match(await call(hooks, { to: "web" }), /^SENT/)
    assert.match(client.logged.join(), /it ended \(1\)/)
  },

  async "without the program opencode goes on without us"() {
    const client = makeClient({ ses_a: {} })
    const hooks = await load(client, { command: ["/nonexistent/xsessionctl"] })
    assert.deepEqual(hooks.tool, {})
    const mcp = { mine: { type: "local", command: ["/usr/bin/xsessionctl", "mcp"], enabled: true } }
    await hooks.config({ mcp })
    assert.equal(mcp.mine.enabled, true) // then it is the only way
    await hooks.event(created("ses_a"))
    await hooks["chat.message"](...user("ses_a", "msg_1", "hello"))
    assert.match(client.logged.join(), /ENOENT/)
  },

  async "our own MCP server is left out, and nobody else's"() {
    const hooks = await load(makeClient({}))
    const mcp = {
      ours: { type: "local", command: ["/opt/tools/bin/xsessionctl", "mcp"] },
      other: { type: "local", command: ["/usr/bin/files", "mcp"] },
      remote: { type: "remote", url: "https://example.com/xsessionctl/mcp" },
    }
    await hooks.config({ mcp })
    await hooks.config({})
    assert.deepEqual([mcp.ours.enabled, mcp.other.enabled, mcp.remote.enabled], [false, undefined, undefined])
  },

  async "a session that ends or is put away is closed"() {
    const hooks = await load(makeClient({}))
    for (const id of ["ses_a", "ses_b"]) await hooks.event(created(id))
    await hooks.event(event("session.updated", { info: { id: "ses_a", directory: DIRECTORY, title: "x", time: { archived: 5 } } }))
    await hooks.event(event("session.deleted", { info: { id: "ses_b" } }))
    await hooks.event(event("session.updated", { info: { id: "ses_never" } }))
    await frame("closed", 2)
    assert.deepEqual(lines().slice(-2).map((line) => line.params.session), ["ses_a", "ses_b"])
  },

  async "a conversation that opencode was started with is open at once"() {
    process.env.CASE_RESUME = JSON.stringify({ session: "ses_a" })
    await load(makeClient({ ses_a: { title: "The migration" } }))
    assert.equal((await frame("opened")).title, "The migration")
  },

  async "or the newest one of its folder"() {
    process.env.CASE_RESUME = JSON.stringify({ session: null })
    await load(makeClient({
      ses_a: { time: { updated: 1 } },
      ses_b: { time: { updated: 2 } },
      ses_c: { time: { updated: 3 }, parentID: "ses_a" },
      ses_d: { time: { updated: 4 }, directory: "/src/web" },
      ses_e: { time: { updated: 5, archived: 6 } },
    }))
    assert.equal((await frame("opened")).session, "ses_b")
  },

  async "a plugin that is installed twice works once"() {
    const client = makeClient({})
    const hooks = await load(client)
    assert.deepEqual(await load(client), {})
    const elsewhere = await load(client, { directory: "/src/web" })
    await hooks.dispose()
    const again = await load(client)
    assert.equal(Object.keys(again.tool).length, 1)
    assert.equal(Object.keys(elsewhere.tool).length, 1)
    assert.equal(lines().filter((line) => line.method === "hello").length, 1)
  },

  async "what ran in a folder that opencode lets go of runs no more"() {
    const hooks = await load(makeClient({}))
    await hooks.event(created("ses_a"))
    await hooks.event(event("session.status", { sessionID: "ses_a", status: { type: "busy" } }))
    await hooks.dispose()
    assert.equal((await frame("state", 2)).state, "idle")
  },

  async "trouble with opencode's answers disturbs nothing"() {
    const client = makeClient({})
    client.session.get = async () => {
      throw new Error("down")
    }
    const hooks = await load(client)
    await hooks.event(event("session.status", { sessionID: "ses_a", status: { type: "busy" } }))
    await hooks.event(event("session.status", undefined))
    await hooks.event(event("session.created", {}))
    await hooks.event({ event: undefined })
    await hooks["chat.message"]({}, undefined)
    await hooks["chat.message"](...user("ses_a", "msg_1", "hello"))
    assert.match(await call(hooks, { to: "web" }), /SENT/) // the bridge says what is wrong with it
    assert.equal(lines().find((line) => line.method === "call").params.session, undefined)
  },
}

// -- running ----------------------------------------------------------------------------------------------------------

if (process.argv[2] === "--bridge") {
  runBridge(process.argv[3])
} else {
  setInterval(() => {}, 1000) // the plugin keeps no process alive
  const folder = mkdtempSync(join(tmpdir(), "plugin-"))
  try {
    for (const [name, run] of Object.entries(CASES)) {
      log = join(folder, name.replaceAll(" ", "-"))
      delete globalThis[Symbol.for("xsessiond.opencode")]
      delete process.env.CASE_RESUME
      await run()
      process.stdout.write(name + "\n")
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  process.exit(0) // the bridges end with their input
}
