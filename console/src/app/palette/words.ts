/*
 * The texts of the command palette. Only this folder uses them.
 */

export const WORDS = {
  palette: 'Command palette',
  field: 'Page, tool or command',
  results: 'Results',
  command: 'Command',
  page: 'Page',
  source: 'Source',
  key: 'Key',
  approval: 'Approval',
  call: 'Call',
  nothing: (text: string) => `Nothing matches "${text}".`,
  running: (command: string) => `${command}: running…`,
  callsWith: (tool: string) => `Calls of ${tool}`,
  openCall: (id: string) => `Open call ${id}`,
  searchCalls: (text: string) => `Search calls for "${text}"`,
  createKey: 'Create key',
  addSource: 'Add source',
  verifyJournal: 'Verify the journal',
  reload: 'Reload the config',
  theme: 'Switch theme',
  times: { utc: 'Show times in UTC', local: 'Show local times' },
  shortcuts: 'Keyboard shortcuts',
  signIn: 'Sign in',
  signOut: 'Sign out',
  intact: 'The journal is intact.',
  notIntact: 'The journal is not intact. Audit shows where it was changed.',
  nothingChanged: 'The config was read again. Nothing changed.',
  applied: (names: string) => `Applied: ${names}.`,
  needsRestart: (names: string) => `Needs a restart: ${names}.`,
  unchanged: (reasons: string) => `Unchanged: ${reasons}`,
  requestedBy: (tool: string, principal: string) => `${tool}, requested by ${principal}`,
} as const

/** Sections of pages that can be opened directly. */
export const SECTION_NAMES = {
  keys: 'Access: Keys',
  toolsets: 'Access: Toolsets',
  secrets: 'Access: Secrets',
  accounts: 'Access: OAuth accounts',
  clients: 'Settings: Connect a client',
  limits: 'Settings: Limits and budgets',
  appearance: 'Settings: Appearance',
  models: 'Tools: What models see',
} as const

/** Other words that people may type for a command. */
export const SYNONYMS = {
  createKey: 'new api token credential',
  addSource: 'new import mcp openapi connect server',
  verifyJournal: 'audit check log integrity',
  reload: 'settings config refresh restart',
  theme: 'dark light mode appearance colour color',
  times: 'time zone clock',
  shortcuts: 'keys help keyboard',
  signOut: 'log out logout exit',
  signIn: 'log in login',
} as const
