/**
 * The plugin of opencode: a thin end of `xsessionctl bridge opencode`, its one child process.
 *
 * It tells the bridge which sessions there are and what becomes of their turns, offers the model our tools, and posts
 * into a session what the bridge hands it. docs/harnesses.md has the lines that the two exchange.
 *
 * Laws: nothing here throws into opencode or makes it wait, but for the one greeting at its start, which is bounded; a
 * text is posted whole, as a prompt of the session's own agent, model and variant, so that mail never changes the mode
 * in which the session runs. All that is reported of a session goes in the order in which it happened. Refuses to know:
 * the broker, what a message is, when one is posted.
 */
import { Bridge, within } from "./opencode_bridge.js"

/** For what opencode itself is asked in between. */
const READ_MS = 5_000
/** For a prompt to be accepted; the turn that it starts is not waited for. */
const PROMPT_MS = 20_000
/** Texts under way whose prompt has not been seen yet; more than there ever are. */
const POSTS_MOST = 16
const PARENTS_MOST = 16

/** What this opencode process knows of its sessions, for all instances of the plugin (one for each folder). */
class House {
  sessions = new Map()
  instances = new Map()
  #lane = Promise.resolve()

  constructor(command) {
    this.bridge = new Bridge(command, this)
    this.greeting = this.bridge.start()
  }

  /** Does one thing after the other, so that the bridge hears of them in order. */
  enqueue(work) {
    const done = this.#lane.then(work)
    this.#lane = done.catch((problem) => this.complain(String(problem?.stack ?? problem)))
    return done
  }

  complain(message) {
    const [instance] = this.instances.values()
    try {
      instance?.client.app.log({ body: { service: "xsessiond", level: "warn", message } })?.catch?.(() => {})
    } catch {}
  }

  /** The bridge came up, for the first time or again: it is told all that there is to know. */
  greeted(result) {
    this.greeting = Promise.resolve(result)
    for (const session of this.sessions.values()) if (session.open) this.#tellOpened(session)
  }

  async asked(method, params, id) {
    if (method !== "post") throw new Error(`no method ${method}`)
    const session = this.sessions.get(params.session)
    if (!session?.open) throw new Error("the session is closed")
    return this.#post(session, params.text ?? "", params.quiet === true, id)
  }

  // -- what happens in sessions ---------------------------------------------------------------------------------------

  /** The record of a session; read from opencode if this is the first word of it. Null if it knows none. */
  async learn(instance, id) {
    const session = this.sessions.get(id)
    if (session) session.instance = instance
    return session ?? this.note(instance, await readSession(instance, id))
  }

  note(instance, info) {
    if (!info?.id) return null
    let session = this.sessions.get(info.id)
    if (!session) {
      session = { id: info.id, open: false, state: "idle", asking: new Set(), posts: new Map(), step: null, last: null }
      this.sessions.set(info.id, session)
    }
    session.parent = info.parentID ?? null
    session.directory = info.directory ?? instance.directory
    session.title = info.title ?? null
    session.instance = instance
    const undone = Boolean(info.revert)
    if (session.open && session.undone !== undone) this.bridge.notify("undone", { session: info.id, undone })
    session.undone = undone
    return session
  }

  /** The session that a subagent's session works for; itself if it is none. */
  async root(instance, id) {
    let session = await this.learn(instance, id)
    for (let depth = 0; session?.parent && depth < PARENTS_MOST; depth++) {
      session = await this.learn(instance, session.parent)
    }
    return session
  }

  open(session) {
    if (!session || session.parent || session.open) return
    session.open = true
    this.#tellOpened(session)
  }

  #tellOpened(session) {
    const { id, directory, title, state, undone } = session
    this.bridge.notify("opened", { session: id, directory, title, state, undone })
  }

  close(id) {
    const session = this.sessions.get(id)
    this.sessions.delete(id)
    if (session?.open) this.bridge.notify("closed", { session: id })
  }

  /** busy: whether a turn runs, or undefined if that has not changed. */
  setState(session, busy) {
    if (busy !== undefined) session.busy = busy
    if (busy === false) session.asking.clear()
    const state = session.asking.size ? "waiting" : session.busy ? "busy" : "idle"
    if (state === session.state) return
    session.state = state
    if (session.open) this.bridge.notify("state", { session: session.id, state })
  }

  async prompted(instance, message, parts) {
    const session = await this.learn(instance, message.sessionID)
    if (!session || session.parent) return
    session.last = message
    this.open(session)
    const real = parts.filter((part) => !part.synthetic)
    const text = real.length === 1 && real[0].type === "text" ? real[0].text : parts.length ? null : ""
    const post = session.posts.get(text) ?? null
    session.posts.delete(text)
    const by = post !== null ? "mail" : real.length ? "human" : "other"
    this.bridge.notify("prompted", { session: session.id, message: message.id, post, by })
  }

  /** A step of a turn began: the model is given all up to the user message `parentID`. */
  async stepped(info) {
    const session = this.sessions.get(info.sessionID)
    if (!session?.open || session.step === info.id) return
    session.step = info.id
    this.bridge.notify("stepped", { session: session.id, parent: info.parentID })
  }

  /** A message is not in the conversation any more. */
  removed(id, message) {
    if (this.sessions.get(id)?.open) this.bridge.notify("removed", { session: id, message })
  }

  async #post(session, text, quiet, id) {
    const { client } = session.instance
    const info = await readSession(session.instance, session.id)
    if (!info) throw new Error("opencode does not know the session any more")
    // Whatever prompts now takes away for good what the user has just undone and may want back.
    if (info.revert) throw Object.assign(new Error("the user has undone a part"), { code: "refused" })
    session.posts.set(text, id)
    if (session.posts.size > POSTS_MOST) session.posts.delete(session.posts.keys().next().value)
    const body = { ...manner(info, session.last, session.busy), parts: text ? [{ type: "text", text }] : [] }
    if (quiet) body.noReply = true // the turn that runs reads it; none is started for it
    const prompt = within(client.session.promptAsync({ path: { id: session.id }, body }), PROMPT_MS)
    const answer = await prompt.catch((error) => ({ error }))
    if (answer?.error === undefined) return {}
    session.posts.delete(text)
    throw new Error(`opencode refused the prompt: ${describe(answer.error)}`)
  }

  // -- tools ----------------------------------------------------------------------------------------------------------

  async call(instance, tool, args, context) {
    try {
      const root = await this.enqueue(async () => {
        const session = await this.root(instance, context.sessionID)
        this.open(session)
        return session
      })
      const subagent = root?.id !== context.sessionID
      const answer = this.bridge.request("call", { session: root?.id, tool, arguments: args, subagent })
      const cancel = () => this.bridge.cancel(answer.id)
      context.abort?.addEventListener("abort", cancel, { once: true })
      try {
        return (await answer).text
      } finally {
        context.abort?.removeEventListener("abort", cancel)
      }
    } catch (problem) {
      return `error: the link to xsessiond is broken (${problem?.message ?? problem}); it is being made again. If this was send_message, check_delivery tells whether it was sent.`
    }
  }
}

/** How the session was prompted last: a prompt that does not say so would run with the default agent and model. */
function manner(info, last, busy) {
  const body = {}
  const agent = info.agent ?? last?.agent
  if (agent) body.agent = agent
  const model = info.model?.id ? { providerID: info.model.providerID, modelID: info.model.id } : last?.model
  if (model?.modelID) body.model = { providerID: model.providerID, modelID: model.modelID }
  const variant = info.model?.id ? info.model.variant : last?.model?.variant
  if (variant && variant !== "default") body.variant = variant
  if (last?.system) body.system = last.system
  // In a running turn the newest prompt says in what form the turn's answer is.
  if (busy && last?.format) body.format = last.format
  return body
}

async function readSession(instance, id) {
  const answer = await within(instance.client.session.get({ path: { id } }), READ_MS).catch(() => null)
  return answer?.data ?? null
}

/** The newest session of this folder, as `--continue` picks it. */
async function newest(instance) {
  const answer = await within(instance.client.session.list(), READ_MS)
  const own = (answer?.data ?? []).filter((info) => !info.parentID && !info.time?.archived && info.directory === instance.directory)
  return own.sort((a, b) => (b.time?.updated ?? 0) - (a.time?.updated ?? 0))[0] ?? null
}

function describe(error) {
  const text = error?.data?.message ?? error?.message
  return typeof text === "string" ? text : JSON.stringify(error)
}

/** Whether an entry of opencode's `mcp` is our own server: its tools are the plugin's too, and its session would be listed twice. */
function isOurServer(entry) {
  const words = Array.isArray(entry?.command) ? entry.command.map(String) : []
  return words.at(-1) === "mcp" && words.some((word) => /(^|[/\\])xsessionctl(\.exe)?$/.test(word))
}

/** What is done with opencode's events, each with (house, instance, properties). */
const EVENTS = {
  "session.created": (house, instance, { info }) => house.open(house.note(instance, info)),
  "session.updated": (house, instance, { info }) => {
    if (!house.sessions.has(info?.id)) return
    if (info.time?.archived) house.close(info.id)
    else house.note(instance, info)
  },
  "session.deleted": (house, instance, { info }) => house.close(info?.id),
  "session.status": async (house, instance, { sessionID, status }) => {
    const session = await house.learn(instance, sessionID)
    if (!session) return
    const busy = status?.type !== "idle"
    if (session.parent && !busy) house.sessions.delete(sessionID) // a subagent that is done; there may be very many
    if (busy) house.open(session)
    house.setState(session, busy)
  },
  "message.updated": (house, instance, { info }) => {
    const answers = info?.role === "assistant" && !info.summary && info.mode !== "compaction"
    return answers ? house.stepped(info) : undefined
  },
  "message.removed": (house, instance, { sessionID, messageID }) => house.removed(sessionID, messageID),
  "permission.asked": (house, instance, { sessionID, id }) => asks(house, instance, sessionID, id, true),
  "permission.replied": (house, instance, { sessionID, requestID }) => asks(house, instance, sessionID, requestID, false),
  "question.asked": (house, instance, { sessionID, id }) => asks(house, instance, sessionID, id, true),
  "question.replied": (house, instance, { sessionID, requestID }) => asks(house, instance, sessionID, requestID, false),
  "question.rejected": (house, instance, { sessionID, requestID }) => asks(house, instance, sessionID, requestID, false),
}

/** Something is asked of the user, or was answered; by a subagent, then its root waits. */
async function asks(house, instance, sessionID, request, begins) {
  const session = await house.root(instance, sessionID)
  if (!session) return
  if (begins) session.asking.add(request)
  else session.asking.delete(request)
  house.setState(session)
}

/** The plugin. options.command: the words that start `xsessionctl`. One House for the process, whoever comes first. */
export default async function plugin(input, options) {
  const instance = { client: input.client, directory: input.directory }
  const house = (globalThis[Symbol.for("xsessiond.opencode")] ??= new House([...options.command, "bridge", "opencode"]))
  if (house.instances.has(input.directory)) return {} // installed twice
  house.instances.set(input.directory, instance)
  const greeting = await house.greeting
  const tools = new Map((greeting?.tools ?? []).map((tool) => [tool.name, tool]))
  const texts = new Map()
  const resume = greeting?.resume
  if (resume) {
    house.enqueue(async () => {
      const info = resume.session ? await readSession(instance, resume.session) : await newest(instance)
      if (info?.directory === instance.directory) house.open(house.note(instance, info))
    }).catch(() => {})
  }
  const execute = (name) => async (args, context) => {
    await context.ask?.({ permission: name, patterns: ["*"], always: ["*"], metadata: {} })
    const text = await house.call(instance, name, args, context)
    if (context.callID) texts.set(context.callID, text)
    return text
  }
  return {
    // What opencode reads of `args` differs between its versions, and what it cannot read breaks every prompt. So there
    // are none, and the schema is put in where it shows the model a tool.
    tool: Object.fromEntries([...tools.values()].map(({ name, description }) => [name, { description, args: {}, execute: execute(name) }])),
    "tool.definition": async ({ toolID }, output) => {
      const tool = tools.get(toolID)
      if (tool) output.jsonSchema = tool.inputSchema
    },
    "tool.execute.after": async ({ callID }, output) => {
      // A long result was cut on its way here; the envelopes in it must not be.
      const text = texts.get(callID)
      texts.delete(callID)
      if (text !== undefined && typeof output?.output === "string") output.output = text
    },
    "chat.message": async (_, output) => {
      const { message, parts } = output ?? {}
      if (message) house.enqueue(() => house.prompted(instance, { ...message }, [...(parts ?? [])])).catch(() => {})
    },
    event: async ({ event }) => {
      const handle = EVENTS[event?.type]
      if (handle) house.enqueue(() => handle(house, instance, event.properties ?? {})).catch(() => {})
    },
    config: async (config) => {
      if (tools.size) for (const entry of Object.values(config?.mcp ?? {})) if (isOurServer(entry)) entry.enabled = false
    },
    dispose: async () => {
      if (house.instances.get(input.directory) === instance) house.instances.delete(input.directory)
      // opencode has stopped what ran here, and told it nobody any more.
      house.enqueue(() => {
        for (const session of house.sessions.values()) if (session.instance === instance) house.setState(session, false)
      }).catch(() => {})
    },
  }
}
