import { ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import type { ToolDefinition } from '#kernel/tool/define'
import type { ToolContext } from '#kernel/tool/tool'

/** A fixture tool as an author would write it, with plain JSON Schema. */
export type FixtureTool = ToolDefinition<JsonObject, JsonObject | null>

export interface OtcFixtures {
  readonly tools: readonly FixtureTool[]
  /** Invocations so far, by full tool id. */
  readonly runs: ReadonlyMap<string, number>
}

/** Shorter than `doorbell-slow` takes. */
const DOORBELL_TIMEOUT_MS = 300

const NUMBERS = {
  a: { type: 'number', description: 'The first number to add.' },
  b: { type: 'number', description: 'The second number to add.' },
}

/** The six tools of the legend in its order, or the catalog of another profile, with fresh counters. */
export function otcFixtures(profile = 'default'): OtcFixtures {
  const runs = new Map<string, number>()
  const counted = (tool: FixtureTool): FixtureTool => ({
    ...tool,
    run: (input, context) => {
      runs.set(tool.id, (runs.get(tool.id) ?? 0) + 1)
      return tool.run(input, context)
    },
  })
  return { tools: catalogOf(profile).map(counted), runs }
}

function catalogOf(profile: string): readonly FixtureTool[] {
  if (profile === 'notools') return []
  const tools = [add('1.0.0', 0), add('1.1.0', 0), doorbell(), timestamp(), emails(), sms()]
  return profile === 'versions' ? [...tools, add('1.10.0', 1_000), add('1.9.0', 900)] : tools
}

function add(version: string, surplus: number): FixtureTool {
  const third = version === '1.0.0' ? {} : { c: { type: 'number', description: 'A third number to add.' } }
  return {
    id: `Calculator.Add@${version}`,
    description: 'Adds two numbers together.',
    input: { type: 'object', properties: { ...NUMBERS, ...third }, required: ['a', 'b'] },
    output: { type: 'number', description: 'The sum of the numbers.' },
    policy: { safetyTier: 'pure', replay: 'deterministic' },
    run: ({ a, b, c }) => Number(a) + Number(b) + (version === '1.0.0' ? 0 : Number(c ?? 0)) + surplus,
  }
}

function doorbell(): FixtureTool {
  let flakyFailures = 0
  return {
    id: 'Doorbell.Ring@0.1.0',
    description: 'Rings a doorbell given a doorbell ID.',
    input: {
      type: 'object',
      properties: { doorbell_id: { type: 'string', description: 'The ID of the doorbell to ring.' } },
      required: ['doorbell_id'],
    },
    output: null,
    policy: { timeoutMs: DOORBELL_TIMEOUT_MS },
    run: ({ doorbell_id: id }, context) => {
      if (id === 'doorbell-crash') throw new Error('boom s3cr3t')
      if (id === 'doorbell-slow') return outlast(context)
      if (id === 'doorbell-flaky' && flakyFailures === 0) {
        flakyFailures += 1
        throw new ToolError('The doorbell is busy', { canRetry: true })
      }
      if (id === 'doorbell1') throw doorbellNotFound()
      return null
    },
  }
}

/** The failure the standard's call page shows. */
function doorbellNotFound(): ToolError {
  return new ToolError('Doorbell ID not found', {
    developerMessage: "The doorbell with ID 'doorbell1' does not exist.",
    canRetry: true,
    additionalPromptContent: 'ids: doorbell42,doorbell84',
    retryAfterMs: 500,
  })
}

/** Answers only some time after its abort, like a tool that ignores its signal. */
function outlast({ signal }: ToolContext): Promise<null> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => setTimeout(() => resolve(null), 50).unref(), { once: true })
  })
}

function timestamp(): FixtureTool {
  return {
    id: 'System.GetTimestamp@1.0.0',
    description: 'Retrieves the current system timestamp.',
    input: { type: 'object' },
    output: {
      type: 'object',
      properties: {
        timestamp: { type: 'string', format: 'date-time', description: 'The current system timestamp.' },
      },
      required: ['timestamp'],
    },
    policy: { safetyTier: 'read' },
    run: () => ({ timestamp: new Date().toISOString() }),
  }
}

function emails(): FixtureTool {
  return {
    id: 'Gmail.GetEmails@1.2.0',
    description: 'Retrieves emails from Gmail using OAuth 2.0 authentication.',
    input: {
      type: 'object',
      properties: { query: { type: 'string', description: 'Search query for filtering emails.' } },
      required: [],
    },
    output: {
      type: 'object',
      properties: { emails: { type: 'array', description: 'List of retrieved emails.' } },
      required: ['emails'],
    },
    requirements: {
      authorization: [
        { id: 'google', oauth2: { scopes: ['https://www.googleapis.com/auth/gmail.readonly'] } },
      ],
      userId: 'claimed',
    },
    policy: { safetyTier: 'read' },
    run: (_input, context) => {
      context.token('google').reveal()
      return { emails: [] }
    },
  }
}

function sms(): FixtureTool {
  return {
    id: 'SMS.Send@0.1.2',
    description: 'Sends SMS messages using Twilio. Requires a valid TWILIO_API_KEY.',
    input: {
      type: 'object',
      properties: {
        to: { type: 'string', description: 'Recipient phone number.' },
        message: { type: 'string', description: 'Message content to send.' },
      },
      required: ['to', 'message'],
    },
    output: {
      type: 'object',
      properties: { status: { type: 'string', description: 'Status of the SMS sending operation.' } },
      required: ['status'],
    },
    requirements: { secrets: [{ id: 'TWILIO_API_KEY' }] },
    run: (_input, context) => {
      context.secret('TWILIO_API_KEY').reveal()
      return { status: 'sent' }
    },
  }
}
