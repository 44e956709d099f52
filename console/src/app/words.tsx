import type { ReactNode } from 'react'

/*
 * The texts of the frame. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  skipContent: 'Skip to content',
  collet: 'Collet',
  console: 'the console',
  sessionCouldNotBeRead: 'The session could not be read',
  signIn: 'Sign in',
  noSuchPage: 'No such page',
  thereNoPageAtThis: 'There is no page at this address',
  openTools: 'Open Tools',
  addressMayBelongAnotherVersion: 'The address may belong to another version.',
  notShown: 'Not shown',
  thisPageCouldNotBe: 'This page could not be shown',
  nothingWasChanged: 'Nothing was changed.',
  page: 'the page',
  thisPageCouldNotBe2: 'This page could not be loaded',
  serverNotRespondingPageLoads: 'The server is not responding. The page loads as soon as it responds.',
  keyboardShortcuts: 'Keyboard shortcuts',
  enableLetterShortcuts: 'Enable letter shortcuts',
  kCtrlK: '⌘K Ctrl+K',
  openPageOrTool: 'Open a page or a tool',
  go: (value: Text) => `Go to ${value}`,
  searchOrFilterThisPage: 'Search or filter this page',
  moveInList: 'Move in a list',
  open: 'Open',
  closeDialogClearSearchOr: 'Close a dialog, clear a search, or leave a field',
  ctrl: '⌘↵ Ctrl+↵',
  runToolTry: 'Run the tool (Try it)',
  turnLiveUpdatesOnOr: 'Turn live updates on or off (Calls)',
  copyThisPagesCommand: "Copy this page's command",
  switchTheme: 'Switch theme',
  showTheseShortcuts: 'Show these shortcuts',
  thisForWholeServer: 'This is for the whole server',
  yourCredentialForTenantAsk: (principal: ReactNode) => (
    <>Your credential is for the tenant {principal}. Ask the operator of the server.</>
  ),
  thisNeedsScope: (or: ReactNode) => <>This needs the scope {or}</>,
  noScopes: 'no scopes',
  youAre: 'You are',
  holdAskPersonWhoManages: (principal: ReactNode) => (
    <>, and hold {principal}. Ask the person who manages keys here for a key with the scope.</>
  ),
  command: 'command',
  terminalCommand: 'Terminal command:',
  copyCommand: 'Copy command',
  timesAreInUtc: 'Times are in UTC',
  hideWholeCommand: 'Hide the whole command',
  showWholeCommand: 'Show the whole command',
  wholeCommand: 'The whole command',
  journalVerified: (last: ReactNode) => <>Journal verified {last}</>,
  journalNotIntact: 'Journal not intact',
  connected: 'Connected',
  inS: (seconds: Text) => `in ${seconds} s`,
  notConnectedTryingAgain: (seconds: ReactNode) => <>Not connected, trying again {seconds}</>,
  collet2: (title: Text) => `${title} · Collet`,
  tryNow: 'Try now',
  notConnectedSince: (state: ReactNode) => <>Not connected since {state}.</>,
  whatYouSeeMayBe: (since: ReactNode) => (
    <>
      {since} What you see may be out of date. Buttons that change something are disabled until the connection
      is back.
    </>
  ),
  minPx70: (width: Text) => `min(${width}px, 70%)`,
  pages: 'Pages',
  jump: 'Jump to…',
  more: 'More',
  needsAttention: 'needs attention',
  needAttention: 'need attention',
  budgetUsedUp: 'budget used up',
  budgetsUsedUp: 'budgets used up',
  waitingCounts: 'waiting counts',
} as const
