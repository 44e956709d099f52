import type { HttpRoute } from '#protocols/http-exchange'
import { ChangeStreams } from './change-streams.ts'
import type { HttpParts } from './http-parts.ts'
import { Methods } from './methods.ts'
import { OldSessions } from './old-sessions.ts'
import { OpenStreams } from './open-streams.ts'
import type { McpServices } from './options.ts'
import { postRoute } from './post-route.ts'
import { RequestsUnderWay } from './requests-under-way.ts'
import { sessionRoutes } from './session-routes.ts'

export interface McpServing {
  readonly routes: readonly HttpRoute[]
  /** Ends the open streams, so that nobody waits for a server that goes (MCP-49). */
  close(): void
}

/** MCP over Streamable HTTP: 2025-06-18 and 2025-11-25 with sessions, 2026-07-28 without. */
export function serveMcp(services: McpServices): McpServing {
  const { gateway, callers, clock, log } = services
  const places = new OpenStreams()
  const parts: HttpParts = {
    methods: new Methods(services, places),
    sessions: new OldSessions(callers, clock),
    underWay: new RequestsUnderWay({ callers, clock, log }),
    streams: new ChangeStreams(gateway.catalogChanges, places),
  }
  return {
    routes: [postRoute(parts), ...sessionRoutes(parts)],
    close() {
      parts.methods.listens.close()
      parts.streams.close()
      parts.underWay.close()
    },
  }
}
