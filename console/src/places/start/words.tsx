import type { ReactNode } from 'react'

/*
 * The texts of the first steps. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  sourceExample: 'npx -y @modelcontextprotocol/server-filesystem ~/docs',
  start: 'Start',
  firstSteps: 'the first steps',
  stateServerCouldNotBe: 'The state of the server could not be read',
  threeStepsAboutMinute: 'Three steps, about a minute',
  finish: 'Finish',
  skipTheseSteps: 'Skip these steps',
  tryTool: 'Try a tool',
  addSource: 'Add a source',
  connectAgent: 'Connect an agent',
  done: '(done)',
  server: 'the server',
  runningHere: 'Running here',
  address: 'Address',
  store: 'Store',
  tools: 'Tools',
  permissions: 'Permissions',
  protocolsSameTools: (numbers: Text) => `${numbers} protocols, same tools`,
  protocol: 'Protocol',
  two: 'Two',
  three: 'Three',
  four: 'Four',
  openapiAddress: 'an OpenAPI address',
  mcpServerByUrl: 'an MCP server by URL',
  mcpServerByItsCommand: 'an MCP server by its command',
  pasteAddressMcpServerOr:
    'Paste the address of an MCP server or OpenAPI document, or a command. Collet inspects it before adding it.',
  addressFileOrCommand: 'Address, file or command',
  inspect: 'Inspect',
  or: (examples: ReactNode) => <>or {examples}</>,
  orImportAllMcpServers:
    'Or import all MCP servers of Claude, Cursor, VS Code and other clients. This command lists them and asks:',
  signIn: 'Sign in',
  addingSourceNeedsSignIn: (serve: ReactNode) => (
    <>Adding a source needs a sign-in: open the one-time link that {serve} printed.</>
  ),
  yourCredentialCannotAddSources: 'Your credential cannot add sources: that needs the scope admin:sources.',
  clients: 'the clients',
  agentsConnectOverMcpWhich: 'Agents connect over MCP, which the config of this server turns off.',
  callsFromAgentsAreShown: 'Calls from agents are shown to credentials with the scope admin:calls.',
  waitingForFirstCallFrom: 'Waiting for the first call from an agent. This page will show it.',
  firstCallFromAgentArrived: 'The first call from an agent arrived',
  seeInCalls: 'See it in Calls',
  forEveryoneWhoCanReach: ', for everyone who can reach this address',
  listingTryingTools: (server: Text) => `Listing and trying tools${server}`,
  addingSources: 'Adding sources',
  creatingKeys: 'Creating keys',
  decidingApprovals: 'Deciding approvals',
  settlingCalls: 'Settling calls',
  notAllowedByYourCredential: ': not allowed by your credential',
  requiresSignIn: ': requires a sign-in',
  toolsCouldNotBeRead: 'The tools could not be read',
  tool: 'a tool',
  thereAreNoToolsHere: 'There are no tools here yet. Add a source first: its tools appear in Tools.',
  chooseToolIn: 'Choose a tool in the ',
  runOnItsPage: (link: ReactNode) => <>{link}, and run it on its page.</>,
  onlyComputes: 'only computes',
  onlyReads: 'only reads',
  run: 'Run it.',
  changeValueRun: 'Change a value and run it.',
  runAgain: 'Run again',
  run2: 'Run',
  succeeded: 'Succeeded',
  failed: 'Failed',
} as const
