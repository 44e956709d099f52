import {
  json,
  KEYED,
  keyRefusal,
  pathParameter,
  queryParameter,
  refusal,
  text,
  UNAUTHENTICATED,
} from './openapi-parts.ts'
import { schemaRef } from './openapi-schemas.ts'

const sequence = { type: 'integer', minimum: -1 } as const
const runId = [pathParameter('runId', 'What `Collet-Run` says of a call, percent-encoded.')]
const NO_SUCH_RUN = { 404: refusal('The caller has no such run.') }
const NO_PLACE = {
  429: refusal('The caller holds as many streams and polls open as it may.'),
  503: refusal('The server holds as many as it can, or shuts down.'),
}
const lastSequence = queryParameter('lastSequence', sequence, 'The last event the reader has; -1 for none.')

/** A principal's own runs (OWP-48, OWP-98). */
export const RUN_PATHS = {
  '/v1/runs/{runId}/events': {
    parameters: runId,
    get: {
      operationId: 'followRun',
      summary: 'The events of a run as they happen, until it is over.',
      parameters: [
        {
          name: 'last-event-id',
          in: 'header',
          required: false,
          schema: sequence,
          description: 'Resume after this event.',
        },
        lastSequence,
      ],
      responses: {
        200: {
          description: 'Server-sent events: `id` is the sequence, `event` the type, `data` a RunEvent.',
          content: { 'text/event-stream': { schema: text } },
        },
        400: refusal('The place to resume from is no sequence.'),
        ...UNAUTHENTICATED,
        ...NO_SUCH_RUN,
        ...NO_PLACE,
      },
    },
  },
  '/v1/runs/{runId}/events/poll': {
    parameters: runId,
    get: {
      operationId: 'pollRun',
      summary: 'The next events of a run, waiting for some if asked.',
      parameters: [
        lastSequence,
        queryParameter('timeout', { type: 'integer', minimum: 1, maximum: 60 }, 'Seconds to wait.'),
      ],
      responses: {
        200: json('What is there; `isComplete` when nothing will follow.', schemaRef('RunEvents')),
        400: refusal('A parameter is no number, or out of bounds.'),
        ...UNAUTHENTICATED,
        ...NO_SUCH_RUN,
        ...NO_PLACE,
      },
    },
  },
  '/v1/runs/{runId}': {
    parameters: runId,
    delete: {
      operationId: 'endRun',
      summary: 'Close the sessions of a run and let nothing new begin in it.',
      ...KEYED,
      responses: {
        204: { description: 'It has ended.' },
        400: refusal('The key of the request is none.'),
        ...UNAUTHENTICATED,
        ...NO_SUCH_RUN,
        ...keyRefusal(),
        503: refusal('The server cannot note the key at the moment.'),
      },
    },
  },
} as const
