import type { ReactNode } from 'react'

/*
 * The texts of Sources. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  addSource: 'Add a source',
  pasteUrlFileOrCommand: 'Paste a URL, a file or a command: MCP, OpenAPI, OTC, OpenTool',
  pasteUrlFileOrCommand2: 'Paste a URL, a file or a command first.',
  addSource2: 'Add source',
  wasAddedAgentsSeeIts: (added: ReactNode) => <>{added} was added, and agents see its tools.</>,
  close: 'Close',
  seeItsTools: 'See its tools',
  thisTreatedAsProgramFiles: 'This is treated as a program. Files end in .json, .yaml or .yml.',
  thisCommand: 'This is a command.',
  listItsToolsServerStarts: (looksLikeFile: ReactNode) => (
    <>
      {looksLikeFile} To list its tools, the server starts it on its own machine, under its own user, and
      again for each call. Start only programs that you trust.
    </>
  ),
  keyOrToken: 'Key or token',
  ifRequiredStoredEncrypted: 'if required; stored encrypted',
  nothingWasAdded: (state: ReactNode) => <>{state} Nothing was added.</>,
  cancel: 'Cancel',
  startProgram: 'Start the program',
  inspect: 'Inspect',
  stop: 'Stop',
  outputProgram: 'Output of the program',
  needsAttention: 'Needs attention',
  newNotServedYet: 'New, not served yet',
  changed: 'Changed',
  goneUpstream: 'Gone upstream',
  suspended: 'Suspended',
  acceptRemoval: 'Accept the removal…',
  acceptAs: (next: Text) => `Accept as ${next}…`,
  since: (state: ReactNode, since: ReactNode) => (
    <>
      {state} since {since}
    </>
  ),
  rejectChange: 'Reject change',
  acceptChange: (pin: Text) => `Accept the change of ${pin}?`,
  acceptChange2: 'Accept change',
  agentsSeeNewDefinitionAt:
    "Agents see the new definition at once, and calls use it. Read the differences first: models read the upstream's texts.",
  agentsCannotCallUntilYou: 'Agents cannot call it until you decide.',
  agentsDoNotSeeUntil: 'Agents do not see it until you decide.',
  agentsKeepUsingPreviousDefinition: 'Agents keep using the previous definition.',
  waiting: (pins: ReactNode, source: ReactNode, pins2: ReactNode) => (
    <>
      {pins} of {source} {pins2} waiting.
    </>
  ),
  allThemAreSuspiciousDecide: 'All of them are suspicious: decide one by one.',
  acceptAll: (source: Text) => `Accept all of ${source}…`,
  accept: (shownPins: Text, source: Text) => `Accept ${shownPins} of ${source}?`,
  acceptAll2: 'Accept all',
  suspiciousChangesStayHeldNeed:
    'Suspicious changes stay held, and need a decision each. The others are served at once.',
  name: 'Name',
  connection: 'Connection',
  certificate: 'Certificate',
  program: 'Program',
  file: 'File',
  handshake: 'Handshake',
  tools: 'Tools',
  definitions: 'Definitions',
  checkAgain: 'Check again',
  checking: (source: Text) => `Checking. ${source}`,
  steps: (key: Text) => `Steps to ${key}`,
  fix: 'Fix:',
  answeredThisTimeHasBeen: (since: ReactNode) => (
    <>It answered this time. It has been unavailable since {since}, and the server will try again.</>
  ),
  more: (different: ReactNode) => <>and {different} more</>,
  reachable: 'Reachable',
  starting: 'Starting',
  degradedSince: (since: Text) => `Degraded since ${since}`,
  unavailableSince: (since: Text) => `Unavailable since ${since}`,
  nextTryAt: (next: Text) => `Next try at ${next}. `,
  untilThenAgentsSeeIts: (when: Text, tools: Text) =>
    `${when}Until then, agents see its ${tools} accepted tools as unavailable.`,
  withWord: (what: ReactNode, countsText: ReactNode) => (
    <>
      It is {what} with {countsText}.
    </>
  ),
  itsTools: 'Its tools',
  readOnly: 'read-only',
  more2: (found: ReactNode) => <>and {found} more</>,
  itsToolsAreNamedName: 'its tools are named Name.tool',
  trustAnnotationsThemOtherwiseAll: (annotated: Text) =>
    `Trust the annotations of ${annotated} of them. Otherwise all count as writes.`,
  waitingCounts: 'waiting counts',
  sources: 'Sources',
  sources2: 'sources',
  sourcesCouldNotBeRead: 'Sources could not be read',
  theyKeepRunning: 'They keep running.',
  source: 'Source',
  type: 'Type',
  health: 'Health',
  changes: 'Changes',
  lastSynced: 'Last synced',
  actions: 'Actions',
  noSourceYet: 'No source yet',
  pasteAddressOrCommandMcp:
    'Paste the address or the command of an MCP server, or an OpenAPI document, above. Its tools appear in Tools.',
  withInClearText: (value: Text, clear: Text) => `${value} (with ${clear} in clear text)`,
  entry: 'that entry',
  thoseEntries: 'those entries',
  reachesWithoutColletSoWithout: (
    entries: ReactNode,
    names: ReactNode,
    only: ReactNode,
    entries2: ReactNode,
  ) => (
    <>
      {entries} reaches {names} without Collet, so without approvals and records. On this machine, {only}{' '}
      removes {entries2} from its file.
    </>
  ),
  held: (held: ReactNode) => <>{held} held</>,
  actionsFor: (key: ReactNode) => <>Actions for {key}</>,
  check: 'Check',
  readAgain: 'Read again',
  settings: 'Settings…',
  remove: 'Remove…',
  check2: (key: Text) => `Check ${key}`,
  settingsFor: (key: Text) => `Settings for ${key}`,
  remove2: (key: Text) => `Remove ${key}?`,
  removeSource: 'Remove source',
  setInConfigRemoveThere: 'It is set in the config: remove it there.',
  agentsLoseItsToolsWithin:
    'Agents lose its tools within a second. Accepted definitions are kept in case it is added again.',
  reading: 'Reading',
  offAllItsToolsCount: 'off: all its tools count as writes',
  onUseItsReadOnly: 'on: use its read-only and idempotent marks',
  thisSourceSetInConfig: 'This source is set in the config',
  changeThereReloadConfig: 'Change it there and reload the config.',
  trustAnnotations: 'Trust annotations',
  onlyTheseTools: 'Only these tools',
  commaSeparatedMatchesAnyCharacters: 'comma-separated; * matches any characters; empty for all',
  exclude: 'Exclude',
  approval: 'Approval',
  allItsTools: 'of all its tools',
  safetyTier: 'Safety tier',
  saveSettings: 'Save settings',
} as const
