import { countOf } from '../../parts/format.ts'

/*
 * The texts of the overview. Only this place uses them.
 */

export const words = {
  title: 'Overview',
  what: 'The overview',
  calls: 'Calls',
  errorRate: 'Error rate',
  runTime: 'Run time',
  p50: 'p50',
  p95: 'p95',
  rejected: 'Rejected',
  errors: 'Errors',
  withoutError: 'Without error',
  showCalls: 'Show calls',
  attention: 'Needs attention',
  quiet: 'Nothing needs attention.',
  causes: 'Rejected requests by cause',
  noCauses: 'No request was rejected.',
  failingTools: 'Tools with the most errors',
  noFailingTools: 'No call failed.',
  callers: 'Callers with the most requests',
  noCallers: 'No caller made a request.',
  cause: 'Cause',
  requests: 'Requests',
  tool: 'Tool',
  caller: 'Caller',
  noCalls: 'No calls in this time range',
  noCallsHint: 'Calls appear here when they end. Choose a longer time range, or connect a client.',
  connect: 'Connect a client',
  waiting: (count: number, isMore: boolean) =>
    `${count}${isMore ? ' or more' : ''} ${count === 1 ? 'call is' : 'calls are'} waiting for approval`,
  ambiguous: (count: number) => `${countOf(count, 'call')} with an unknown outcome`,
  held: (count: number) => `${countOf(count, 'changed definition')} waiting for a decision`,
  state: { down: 'Down', degraded: 'Degraded' },
  since: (time: string) => `since ${time}`,
  budget: (used: string, limit: string, unit: string) => `${used} of ${limit} ${unit} used`,
  budgetOf: (who: string, share: number) => `Budget of ${who}: ${share} %`,
  wholeTenant: (tenant: string) => `tenant ${tenant}`,
  resets: (time: string) => `resets at ${time}`,
  callsSummary: (calls: string, errors: string, rejected: string) =>
    `${calls} calls, ${errors} errors, ${rejected} rejected requests`,
  rateSummary: (share: string) => `Error rate ${share} %`,
  runTimeSummary: (p50: string, p95: string) => `Run time: p50 ${p50}, p95 ${p95}`,
} as const
