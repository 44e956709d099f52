import type { ChangeStreams } from './change-streams.ts'
import type { Methods } from './methods.ts'
import type { OldSessions } from './old-sessions.ts'
import type { RequestsUnderWay } from './requests-under-way.ts'

/** What the routes share. */
export interface HttpParts {
  readonly methods: Methods
  readonly sessions: OldSessions
  readonly underWay: RequestsUnderWay
  readonly streams: ChangeStreams
}
