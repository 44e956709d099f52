import { randomUUID } from 'node:crypto'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import type { JsonObject } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { StatefulContext } from '#kernel/tool/tool'
import type { Discovery, Invocation, OfferedTool, SourceServices } from '#sources/kit/source'
import { ALICE } from '#testing/test-gateway'

export interface Given {
  readonly signal?: AbortSignal
  readonly secrets?: Readonly<Record<string, string>>
  readonly tokens?: Readonly<Record<string, string>>
  readonly userId?: string
  readonly claimedUserId?: string
  readonly effectKey?: string
}

/** The context that a call passes to a source, without a server. */
function contextOf(given: Given = {}): StatefulContext<unknown> {
  const held = (values: Given['secrets'], id: string): Secret => {
    const value = values?.[id]
    if (value === undefined) throw new Error(`the test provides no ${id}`)
    return new Secret(value)
  }
  const { effectKey = randomUUID() } = given
  return {
    callId: 'call-1',
    traceId: 'trace-1',
    signal: given.signal ?? new AbortController().signal,
    principal: ALICE,
    userId: given.userId,
    claimedUserId: given.claimedUserId ?? given.userId,
    userInfo: undefined,
    token: (id) => held(given.tokens, id),
    secret: (id) => held(given.secrets, id),
    fetch: () => Promise.reject(new Error('no fetch here')),
    log: SILENT_LOGGER,
    progress() {},
    message: () => undefined,
    elicit: async () => ({ action: 'decline' }),
    effectKey: (ordinal = 0) => (ordinal === 0 ? effectKey : `${effectKey}.${ordinal}`),
    session: undefined,
  }
}

/** A call of a discovered tool. */
export function invocationOf(
  discovery: Discovery,
  nativeName: string,
  input: JsonObject = {},
  given: Given = {},
): Invocation {
  const { binding } = toolIn(discovery, nativeName)
  return { nativeName, binding, input, context: contextOf(given) }
}

export function toolIn({ tools }: Discovery, nativeName: string): OfferedTool {
  const found = tools.find((tool) => tool.nativeName === nativeName)
  if (found === undefined) throw new Error(`${nativeName} is not offered`)
  return found
}

export function servicesOf(services: Partial<SourceServices> = {}): SourceServices {
  return {
    fetch: () => Promise.reject(new Error('no fetch here')),
    clock: SYSTEM_CLOCK,
    log: SILENT_LOGGER,
    folder: process.cwd(),
    environment: process.env,
    ...services,
  }
}
