import { json, KEYED, keyRefusal, pathParameter, refusal, UNAUTHENTICATED } from './openapi-parts.ts'
import { schemaRef } from './openapi-schemas.ts'

/** State of a tool across calls (rule 30). */
export const SESSION_PATHS = {
  '/v1/sessions': {
    post: {
      operationId: 'openSession',
      summary: 'Keep state of a tool; calls name the session in `Collet-Session`.',
      ...KEYED,
      requestBody: {
        required: true,
        content: { 'application/json': { schema: schemaRef('SessionRequest') } },
      },
      responses: {
        201: json('The session, and the run it belongs to.', schemaRef('Session')),
        400: refusal('The body is wrong, the tool keeps no state, or the run has ended.'),
        ...UNAUTHENTICATED,
        403: refusal('The caller may not act for that user.'),
        404: refusal('There is no such tool, or the caller may not see it.'),
        ...keyRefusal(),
        413: refusal('The body is larger than the server reads.'),
        422: refusal('The tool could not open its state.'),
        429: refusal('The caller has too many open sessions.'),
        503: refusal('The server takes nothing new at the moment.'),
      },
    },
  },
  '/v1/sessions/{sessionId}': {
    parameters: [pathParameter('sessionId', 'As `POST /v1/sessions` gave it.')],
    delete: {
      operationId: 'closeSession',
      summary: 'Cancel what runs in a session and let its state go.',
      ...KEYED,
      responses: {
        204: { description: 'It is closed.' },
        400: refusal('The key of the request is none.'),
        ...UNAUTHENTICATED,
        404: refusal('The caller has no such session, or it has ended.'),
        ...keyRefusal(),
        503: refusal('The server cannot note the key at the moment.'),
      },
    },
  },
} as const
