import { json, KEYED, keyRefusal, pathParameter, refusal, UNAUTHENTICATED } from './openapi-parts.ts'
import { schemaRef } from './openapi-schemas.ts'

const place = [
  pathParameter('runId', 'The run, percent-encoded.'),
  pathParameter('nodeId', 'The `nodeId` of `interrupt.requested`.'),
]
const token = [pathParameter('token', 'As it was minted for one approver.')]
const body = { required: true, content: { 'application/json': { schema: schemaRef('Resume') } } }
const shown = json('The question, and what the call is about.', schemaRef('Interrupt'))
const refused = {
  403: refusal('The approver lacks a scope, or wants to approve its own call.'),
  404: refusal('There is no such interrupt in the tenant of the approver.'),
}
const decided = {
  200: json('The decision counts.', schemaRef('Resumed')),
  400: refusal('The resume value is wrong (INVALID_RESUME_VALUE), or the key of the request is none.'),
  ...keyRefusal('Somebody decided before (interrupt_already_resolved). '),
  410: refusal('Its time is over (interrupt_expired).'),
  413: refusal('The body is larger than the server reads.'),
  503: refusal('The server cannot note the key at the moment.'),
}

/** Calls of others that wait for a yes (OWP-66 to OWP-68). */
export const INTERRUPT_PATHS = {
  '/v1/runs/{runId}/interrupts/{nodeId}': {
    parameters: place,
    get: {
      operationId: 'showInterrupt',
      summary: 'What an approver is asked; needs the scope approvals:respond.',
      responses: { 200: shown, ...UNAUTHENTICATED, ...refused },
    },
    post: {
      operationId: 'resolveInterrupt',
      summary: 'Say yes or no; needs the scope approvals:respond.',
      ...KEYED,
      requestBody: body,
      responses: {
        ...decided,
        ...UNAUTHENTICATED,
        ...refused,
        422: refusal('The call was cancelled (interrupt_cancelled).'),
      },
    },
  },
  '/v1/interrupts/{token}': {
    parameters: token,
    get: {
      operationId: 'showInterruptByToken',
      summary: 'The same for whoever holds a signed link.',
      responses: { 200: shown, 404: refused[404], 410: decided[410] },
    },
    post: {
      operationId: 'resolveInterruptByToken',
      summary: 'Say yes or no with a signed link.',
      ...KEYED,
      requestBody: body,
      responses: { ...decided, ...refused },
    },
  },
} as const
