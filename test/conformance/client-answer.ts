import type { CallFailure, TriedCall } from '#client/index'
import type { JsonObject } from '#kernel/base/json'
import type { RemoteTool } from '#protocols/otc/codec-client'
import type { FailureClass } from '#protocols/otc/codec-client-reply'
import type { Step } from './otc-vectors.ts'
import { atPointer } from './vector-match.ts'

/** An answer as the client read it, in the vocabulary of the vectors, without an envelope. */
export interface ClientAnswer {
  readonly kind: 'value' | FailureClass
  readonly document: JsonObject
}

export function answerOfCall(tried: TriedCall): ClientAnswer {
  if (!tried.ok) return answerOfFailure(tried.error)
  const { callId, value, durationMs } = tried
  const duration = durationMs === undefined ? {} : { duration: durationMs }
  return { kind: 'value', document: { call_id: callId, success: true, value, ...duration } }
}

export function answerOfFailure(failure: CallFailure): ClientAnswer {
  if (failure.class !== 'tool') return { kind: failure.class, document: refusalDocument(failure) }
  const error = { message: failure.message, ...(failure.canRetry ? { can_retry: true } : {}) }
  return {
    kind: 'tool',
    document: { ...(failure.callId === undefined ? {} : { call_id: failure.callId }), success: false, error },
  }
}

export function answerOfList(tools: readonly RemoteTool[]): ClientAnswer {
  const list = tools.map(({ id, requirements }): JsonObject => {
    const { authorization, secrets, userId } = requirements
    return {
      id,
      requirements: {
        authorization: authorization.map(({ definition }) => definition),
        secrets: secrets.map((secret) => ({ id: secret.id })),
        user_id: userId,
      },
    }
  })
  return { kind: 'value', document: { list } }
}

function refusalDocument({ message, parameterErrors, missing }: CallFailure): JsonObject {
  const challenges = (missing?.authorization ?? []).map(
    ({ id, url }): JsonObject => ({ ...(id === undefined ? {} : { id }), url }),
  )
  return {
    message,
    ...(Object.keys(parameterErrors).length === 0 ? {} : { parameter_errors: parameterErrors }),
    ...(missing === undefined
      ? {}
      : {
          missing_requirements: {
            ...(challenges.length === 0 ? {} : { authorization: challenges }),
            ...(missing.secrets === undefined ? {} : { secrets: [...missing.secrets] }),
            ...(missing.userId === undefined ? {} : { user_id: true }),
          },
        }),
  }
}

/** These vectors expect 400 without naming the missing requirement, which is a secret. */
const LACKS_SECRET = new Set(['S74', 'S88'])

/** The class from §3.2 item 4 of the answer that a vector expects of a step. */
export function expectedKind(vectorId: string, steps: readonly Step[], index: number): ClientAnswer['kind'] {
  const expected = steps[index]?.expect
  if (expected === undefined) throw new Error(`${vectorId} has no step ${index}`)
  const { status, json, absent } = expected
  const sameAs = atPointer(json, '/~1result/$same')?.value
  if (typeof sameAs === 'number') return expectedKind(vectorId, steps, sameAs)
  if (status === 200) return isFailure(json) ? 'tool' : 'value'
  if (status === 401) return 'unauthenticated'
  if (status === 422) return 'validation'
  const pointers = [...Object.keys(json), ...absent]
  if (pointers.some((pointer) => pointer.startsWith('/missing_requirements/authorization/'))) {
    return 'authorization_required'
  }
  const isMissing = Object.keys(json).some((pointer) => pointer.startsWith('/missing_requirements'))
  return isMissing || LACKS_SECRET.has(vectorId) ? 'requirements' : 'server'
}

function isFailure(json: Step['expect']['json']): boolean {
  return Object.entries(json).some(([pointer, value]) => pointer.endsWith('/success') && value === false)
}

/** The pointer without the envelope; `undefined` for members that only one dialect has. */
export function meaningOf(pointer: string): string | undefined {
  if (/\/(\$schema|input_schema|toolkit)(\/|$)/.test(pointer)) return undefined
  return pointer
    .replace(/^\/(result|response|output)(?=\/|$)/, '')
    .replace(/^\/execution_id$/, '/call_id')
    .replace(/^\/(tools|items)(?=\/|$)/, '/list')
}

/** On success only these absent members are independent of the envelope. */
export function meaningOfAbsence(pointer: string, status: number): string | undefined {
  if (status === 200)
    return /^\/(result|output)\/(error|value)/.test(pointer) ? meaningOf(pointer) : undefined
  return pointer === '/result' ? '/success' : meaningOf(pointer)
}
