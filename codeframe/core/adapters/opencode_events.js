// Says on stdout what `run --format json` leaves out, and ends what would go on for ever. Facts: docs/engines/.
// Named in the configuration overlay of one run; nothing is installed, nothing is kept.
import { writeSync } from "node:fs"

const RETRIES = 3 // left alone it makes five, which takes over a minute; CodeFrame backs off itself
const LONGEST_WAIT_MS = 60_000 // the program obeys a `retry-after` of any length, in silence
const EMPTY_STEPS = 4 // an answer without an end is asked for again, three times a second, without a limit

const say = (line) => {
  try {
    writeSync(1, JSON.stringify({ type: "codeframe", ...line }) + "\n")
  } catch {} // a reader that is gone or slow is no reason to fail the work
}

export const CodeFrame = async ({ client }) => {
  const tools = new Map() // callID -> the last status told
  const empty = new Map() // sessionID -> steps in a row that brought nothing
  const giveUp = async (sessionID, why) => {
    say({ event: "gave_up", sessionID, ...why })
    await client.session.abort({ path: { id: sessionID } }).catch(() => {})
  }
  const toolPart = ({ callID, tool, sessionID, state }) => {
    const status = state.status
    if (status === "pending" || tools.get(callID) === status) return
    tools.set(callID, status)
    if (status !== "running") return say({ event: "tool", sessionID, callID, tool, status })
    const { command, filePath, path, pattern, url, description } = state.input ?? {}
    const input = { command, filePath, path, pattern, url, description }
    say({ event: "tool", sessionID, callID, tool, status, input })
  }
  const stepPart = async (part) => {
    say({ event: "step", sessionID: part.sessionID, part })
    const nothing = part.reason === "unknown" || part.reason === "other"
    const count = nothing ? (empty.get(part.sessionID) ?? 0) + 1 : 0
    empty.set(part.sessionID, count)
    if (count >= EMPTY_STEPS) await giveUp(part.sessionID, { why: "steps", steps: count })
  }
  return {
    event: async ({ event: { type, properties: p } }) => {
      if (type === "session.created") say({ event: "session", sessionID: p.info.id, parentID: p.info.parentID })
      else if (type === "session.error") say({ event: "error", sessionID: p.sessionID, error: p.error })
      else if (type === "permission.asked")
        say({ event: "permission", sessionID: p.sessionID, permission: p.permission, patterns: p.patterns })
      else if (type === "session.status" && p.status.type === "retry") {
        const { attempt, message, next } = p.status
        const wait_ms = Math.max(0, next - Date.now())
        say({ event: "retry", sessionID: p.sessionID, attempt, message, wait_ms })
        if (attempt > RETRIES || wait_ms > LONGEST_WAIT_MS)
          await giveUp(p.sessionID, { why: "refused", message, wait_ms: wait_ms > LONGEST_WAIT_MS ? wait_ms : 0 })
      } else if (type === "message.part.updated" && p.part.type === "tool") toolPart(p.part)
      else if (type === "message.part.updated" && p.part.type === "step-finish") await stepPart(p.part)
    },
  }
}
