/**
 * The child process of opencode's plugin: `xsessionctl bridge opencode`, JSON-RPC 2.0 over its standard streams, one
 * object a line.
 *
 * Laws: a request is answered or rejected, once; a child that ends is started again, after a pause that doubles; neither
 * it nor a pause keeps opencode from ending. Refuses to know: what is asked.
 */
import { spawn } from "node:child_process"

const PROTOCOL = 1
/** How long opencode's start may wait for the bridge: a Python that starts on a busy machine. */
const GREETING_MS = 10_000
/** Pauses before a bridge that ended is started again. */
const RETRY_FIRST_MS = 500
const RETRY_MOST_MS = 30_000
/** A bridge that ran so long was well: the pauses begin anew. */
const STEADY_MS = 10_000
/** What is kept of its words on standard error, for opencode's log. */
const WORDS_MOST = 2000

/** The one child process. */
export class Bridge {
  #command
  #owner
  #child = null
  #pending = new Map()
  #last = 0
  #pause = RETRY_FIRST_MS
  #up = false

  /** command: the words that start it. owner: has greeted(result), asked(method, params, id) and complain(text). */
  constructor(command, owner) {
    this.#command = command
    this.#owner = owner
  }

  /** Starts it; resolves with its greeting, or with null when there is none in time. Never rejects. */
  async start() {
    const began = Date.now()
    let child
    try {
      child = spawn(this.#command[0], this.#command.slice(1), { stdio: ["pipe", "pipe", "pipe"], cwd: "/" })
    } catch (problem) {
      this.#fail(problem, "", began)
      return null
    }
    this.#child = child
    let rest = ""
    let words = ""
    const end = (problem) => {
      if (this.#child !== child) return
      this.#child = null
      this.#fail(problem, words, began)
    }
    child.once("error", end)
    child.once("close", (code, signal) => end(new Error(`it ended (${signal ?? code})`)))
    child.stdin.on("error", () => {})
    child.stdout.setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\n")
      rest = lines.pop()
      for (const line of lines) this.#receive(line)
    })
    child.stderr.setEncoding("utf8").on("data", (text) => (words = (words + text).slice(-WORDS_MOST)))
    for (const part of [child, child.stdin, child.stdout, child.stderr]) part.unref?.()
    const greeting = this.request("hello", { protocol: PROTOCOL }).then((result) => {
      this.#up = true
      this.#owner.greeted(result)
      return result
    })
    try {
      return await within(greeting, GREETING_MS)
    } catch (problem) {
      if (this.#child === child) this.#owner.complain(`no greeting from the bridge: ${problem.message}`)
      return null
    }
  }

  /** Asks. The promise (its `id` names the request) rejects with an Error when the bridge refuses, is not there, or
   * ends meanwhile. */
  request(method, params) {
    const id = ++this.#last
    const answer = new Promise((resolve, reject) => {
      if (this.#child) this.#pending.set(id, { resolve, reject })
      else reject(new Error("it does not run"))
    })
    answer.id = id
    this.#write({ jsonrpc: "2.0", id, method, params })
    return answer
  }

  /** Tells, if it is there; after a start it is told anew what it must know. */
  notify(method, params) {
    if (this.#up) this.#write({ jsonrpc: "2.0", method, params })
  }

  /** The answer to this request is not wanted any more: it rejects. */
  cancel(id) {
    this.notify("cancel", { id })
    this.#pending.get(id)?.reject(new Error("it was cancelled"))
    this.#pending.delete(id)
  }

  #write(frame) {
    this.#child?.stdin.write(JSON.stringify(frame) + "\n")
  }

  #receive(line) {
    let frame
    try {
      frame = JSON.parse(line)
    } catch {
      this.#owner.complain("a line of the bridge is not JSON")
      return
    }
    if (frame.method) {
      const answer = (body) => this.#write({ jsonrpc: "2.0", id: frame.id, ...body })
      this.#owner.asked(frame.method, frame.params ?? {}, frame.id).then(
        (result) => answer({ result }),
        (problem) => answer({ error: { code: -32000, message: problem.message, data: { code: problem.code ?? "gone" } } }),
      )
      return
    }
    const waiting = this.#pending.get(frame.id)
    this.#pending.delete(frame.id)
    if (frame.error) waiting?.reject(new Error(frame.error.message))
    else waiting?.resolve(frame.result)
  }

  #fail(problem, words, began) {
    this.#up = false
    const pending = [...this.#pending.values()]
    this.#pending.clear()
    for (const { reject } of pending) reject(new Error("it ended"))
    this.#owner.complain(`the bridge: ${problem.message} ${words.trim()}`.trim())
    if (problem.code === "ENOENT" || problem.code === "EACCES") return // it is not there, and will not come by itself
    if (Date.now() - began > STEADY_MS) this.#pause = RETRY_FIRST_MS
    setTimeout(() => this.start(), this.#pause).unref?.()
    this.#pause = Math.min(this.#pause * 2, RETRY_MOST_MS)
  }
}

/** The promise, or a rejection when it takes longer. */
export function within(promise, ms) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no answer in time")), ms)
    timer.unref?.()
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
