import { measureCatalog } from './measure-catalog.ts'
import { measureFollowers } from './measure-followers.ts'
import { measureHalfLoad } from './measure-half-load.ts'
import { measureHop } from './measure-hop.ts'
import { measureImport } from './measure-import.ts'
import { measureMemory } from './measure-memory.ts'
import { measurePostgres } from './measure-postgres.ts'
import { measurePrincipals } from './measure-principals.ts'
import type { Timing } from './measure-round.ts'
import { measureStart } from './measure-start.ts'
import { measureStdioHop } from './measure-stdio-hop.ts'
import { measureTools } from './measure-tools.ts'
import { measureWorkers } from './measure-workers.ts'
import type { Figure } from './statistics.ts'

type Measure = (timing: Timing) => Promise<Readonly<Record<string, Figure>>>

/** Measurements that run separately, once per round, instead of as contenders under load. */
export const SUBJECTS = {
  hop: measureHop,
  stdioHop: measureStdioHop,
  halfLoad: measureHalfLoad,
  start: measureStart,
  memory: measureMemory,
  postgres: measurePostgres,
  tools: measureTools,
  catalog: measureCatalog,
  principals: measurePrincipals,
  followers: measureFollowers,
  workers: measureWorkers,
  github: () => measureImport('github'),
  stripe: () => measureImport('stripe'),
} as const satisfies Record<string, Measure>

export type SubjectName = keyof typeof SUBJECTS

/** Measured in the first round only, because they take long and hardly vary. */
export const ONCE: ReadonlySet<SubjectName> = new Set(['memory', 'principals', 'stripe'])

export type FigureOf<Subject extends SubjectName> = keyof Awaited<ReturnType<(typeof SUBJECTS)[Subject]>>
