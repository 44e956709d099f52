import type { ReactNode } from 'react'

/*
 * The texts of Settings. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  system: 'System',
  light: 'Light',
  dark: 'Dark',
  local: 'Local',
  appearance: 'Appearance',
  theme: 'Theme',
  times: 'Times',
  now: (formatExact: ReactNode) => <>Now: {formatExact}</>,
  keyboard: 'Keyboard',
  enableLetterShortcuts: 'Enable letter shortcuts',
  connectClient: 'Connect a client',
  endpoints: 'Endpoints',
  toolsetsOverMcp: 'Toolsets, over MCP',
  connect: 'Connect it to',
  mcpTurnedOff: 'MCP is turned off',
  clientsConnectOverMcpEnable: 'Clients connect over MCP. Enable it in the config.',
  thisServerRequiresKeyCreate:
    "This server requires a key. Create one for the client, and set it as COLLET_API_KEY in the client's environment.",
  limitsBudgets: 'Limits and budgets',
  limits: 'The limits',
  budgets: 'The budgets',
  noLimits: 'No limits',
  setLimitsBudgetsInConfig:
    'Set limits and budgets in the config, and reload it. Budgets appear here after their first use.',
  serversReservePartsBudgetIn:
    'Servers reserve parts of a budget in advance, which count as used. Reservations of a crashed server are freed when the budget resets.',
  resetsAt: (resetsAt: Text) => `Resets at ${resetsAt}`,
  of: (used: ReactNode, shown: ReactNode) => (
    <>
      {used} of {shown}
    </>
  ),
  used: (value: Text, used: Text) => `${value}: ${used} % used`,
  concurrentCalls: 'Concurrent calls',
  pendingWrites: 'Pending writes',
  inWord: (units: Text, each: Text, who: Text) => `${units} in ${each}, ${who}`,
  calls: 'Calls',
  costUnits: 'Cost units',
  seconds: 'Seconds',
  wholeServer: 'The whole server',
  each: (of: Text) => `Each ${of}`,
  callsMinute: (shown: Text) => `${shown} calls a minute`,
  atOnce: (shown: Text) => `${shown} at once`,
  n24Hours: '24 hours',
  n7Days: '7 days',
  n30Days: '30 days',
  caller: 'Caller',
  errors: 'Errors',
  rejected: 'Rejected',
  runTime: 'Run time',
  cost: 'Cost',
  usageByCaller: 'Usage by caller',
  time: 'Time',
  usage: 'The usage',
  noCallsInThisPeriod: 'No calls in this period',
  callersAppearHereWithTheir: 'Callers appear here with their first call.',
  notAllCallsWereCounted: 'Not all calls were counted.',
  tenant: (tenant: ReactNode) => <>tenant {tenant}</>,
  principalStatusRejectedSince: (principal: Text, value: Text) =>
    `principal:${principal} status:rejected since:${value}`,
  clients: 'Clients',
  limits2: 'Limits',
  usage2: 'Usage',
  server: 'Server',
  settings: 'Settings',
  onThisPage: 'On this page',
  server2: 'The server',
  version: 'Version',
  address: 'Address',
  store: 'Store',
  callers: 'Callers',
  needCredential: 'need a credential',
  needNoCredential: 'need no credential',
  config: 'Config',
  reloadConfig: 'Reload config',
  serverReadsItsFileAgain:
    'The server reads its file again. Running calls continue. An invalid file changes nothing.',
  changed: 'Changed',
  nothing: 'nothing',
  applied: 'Applied',
  needsRestart: 'Needs a restart',
  unchanged: 'Unchanged',
} as const
