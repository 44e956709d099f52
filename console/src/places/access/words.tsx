import type { ReactNode } from 'react'

/*
 * The texts of Access. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  createKey: 'Create key',
  enterNameForExampleCi: 'Enter a name, for example ci or support-bot.',
  thisServerAcceptsCallsWithout:
    'This server accepts calls without a key. After the first key, every caller needs one.',
  name: 'Name',
  callerNameCannotBeReused: 'The caller. A name cannot be reused.',
  scopes: 'Scopes',
  optional: 'optional',
  spaceSeparatedMailReadCrm: 'Space-separated: mail:read crm:*',
  roles: 'Roles',
  fromConfigSpaceSeparated: 'From the config, space-separated.',
  onlyTheseToolsets: 'Only these toolsets',
  onlyTheseTools: 'Only these tools',
  namesOrPatternsMailCalendar: 'Names or patterns: Mail.* Calendar.List',
  tenant: 'Tenant',
  defaultWord: 'default',
  label: 'Label',
  expires: 'Expires',
  cancel: 'Cancel',
  until: (made: ReactNode) => <>, until {made}</>,
  key: (principal: ReactNode) => <>The key of {principal}</>,
  copyNowShownOnlyOnce: '. Copy it now: it is shown only once.',
  key2: 'key',
  iHaveCopied: 'I have copied it',
  in1Hour: 'in 1 hour',
  in24Hours: 'in 24 hours',
  in7Days: 'in 7 days',
  whenTheyExpireOrAre: 'when they expire or are revoked',
  rotateKey: (apiKey: Text) => `Rotate the key of ${apiKey}`,
  createsAnotherKeyWithSame: 'Creates another key with the same permissions. Replace the old key with it.',
  expiryItsOtherKeys: 'Expiry of its other keys',
  rotateKey2: 'Rotate key',
  revokeKey: (apiKey: Text) => `Revoke a key of ${apiKey}`,
  revokeKey2: 'Revoke key',
  endPrincipal: 'End principal',
  revoke: 'Revoke',
  thisKey: 'This key',
  callsWithAreRejectedWithin: 'Calls with it are rejected within a second. Other keys stay valid.',
  principalWithAllItsKeys: 'The principal, with all its keys',
  permanentItsNameCannotBe: 'Permanent: its name cannot be reused. Its calls stay in the journal.',
  principal: 'Principal',
  key3: 'Key',
  permissions: 'Permissions',
  lastUsed: 'Last used',
  actions: 'Actions',
  keys: 'Keys',
  keys2: 'The keys',
  thereAreNoKeysIn: 'There are no keys in use',
  firstKeyYouCreateCloses:
    'The first key that you create closes the server: from then on every caller needs one.',
  callersNeedTokenIssuerIn: 'Callers need a token of an issuer in the config.',
  hideEndedKeys: 'Hide ended keys',
  endedKey: 'ended key',
  show: (ended: Text) => `Show ${ended}`,
  rotate: (principal: Text) => `Rotate ${principal}`,
  rotate2: 'Rotate…',
  revoke2: (key_id: Text) => `Revoke ${key_id}`,
  revoke3: 'Revoke…',
  tenant2: (tenant: ReactNode) => <>tenant {tenant}</>,
  inConfig: 'in the config',
  usesAreRecordedForKeys: 'Uses are recorded for keys in the store. This key is in the config.',
  notRecorded: 'not recorded',
  everything: 'everything',
  more: (words: ReactNode) => <>and {words} more</>,
  toolsWithoutScopes: 'tools without scopes',
  toolsets: 'Toolsets',
  secrets: 'Secrets',
  oauthAccounts: 'OAuth accounts',
  access: 'Access',
  sectionsAccess: 'Sections of Access',
  oauthProviders: 'OAuth providers',
  noneProvidersAreSetIn: (providers: ReactNode) => (
    <>None. Providers are set in the config, under {providers}.</>
  ),
  toolNeeds: 'tool needs it',
  toolsNeed: 'tools need it',
  notInConfig: (tools: ReactNode) => <>Not in the config · {tools}</>,
  setUp: 'Set up…',
  setUp2: (id: Text) => `Set up ${id}`,
  accessRegisterApplicationThereWith: (tools: ReactNode, tools2: ReactNode) => (
    <>
      {tools} {tools2} access to it. Register an application there, with this redirect address:
    </>
  ),
  address: 'address',
  addConfigThenRunWithout: (
    reload: ReactNode,
    authorizationEndpoint: ReactNode,
    tokenEndpoint: ReactNode,
  ) => (
    <>
      Add it to the config, then run {reload}. Without an issuer, set {authorizationEndpoint} and{' '}
      {tokenEndpoint} instead.
    </>
  ),
  linesForConfig: 'lines for the config',
  withTokenNoProviderNeeded: 'With a token, no provider is needed:',
  close: 'Close',
  forOneItsUsers: ' for one of its users',
  mustConsentAgain: 'must consent again',
  thisNeedsScope: (secretsScope: Text) => `This needs the scope ${secretsScope}.`,
  disconnect: 'Disconnect…',
  otherMachinesReachThisServer: 'Other machines reach this server: set oauth.signIn in the config first.',
  connect: 'Connect',
  connect2: (id: Text) => `Connect ${id}`,
  disconnectFrom: (disconnecting: Text, id: Text) => `Disconnect ${disconnecting} from ${id}?`,
  disconnect2: 'Disconnect',
  tokenDeletedAtOnceRevoked: (id: ReactNode) => (
    <>
      The token is deleted at once, and revoked at {id} if it offers that. The next call that needs it asks
      for consent again.
    </>
  ),
  openThisLinkGrantAccess: (provider: ReactNode) => (
    <>
      Open this link and grant access at {provider}. It is valid for ten minutes. This page updates after you
      have granted access.
    </>
  ),
  link: 'link',
  go: (provider: ReactNode) => <>Go to {provider}</>,
  noToolRequiresScopeYet: 'No tool requires a scope yet.',
  itsToolsNeed: (provider: Text) => `Its tools need: ${provider}.`,
  callerMayUse: 'the caller that may use it',
  yoursOthersNeedScope: (secretsScope: Text) => `yours; others need the scope ${secretsScope}`,
  caller: 'of that caller',
  makeLink: 'Make link',
  secret: 'Secret',
  noneCatalogShowsWhichTools: 'None. Tools shows which tools need one.',
  inYourTenant: ' in your tenant',
  notSet: 'Not set',
  it: (tools: ReactNode, tools2: ReactNode) => (
    <>
      {' '}
      · {tools} {tools2} it
    </>
  ),
  set: 'Set',
  allCallersTenant: 'all callers of the tenant',
  forOneItsUsers2: ', for one of its users',
  of: (secret: ReactNode) => <>Of {secret}</>,
  setCannotBeReadBack: (secret: ReactNode) => <> · set {secret} · cannot be read back</>,
  belongsUserReplaceWithCollet: 'Belongs to a user: replace it with collet secrets set --user.',
  replace: 'Replace',
  deleteWord: 'Delete…',
  setSecret: 'Set a secret',
  deleteWord2: (deleting: Text) => `Delete ${deleting}?`,
  deleteSecret: 'Delete secret',
  callsNeedAreRejectedFrom: (deleting: ReactNode) => (
    <>Calls of {deleting} that need it are rejected from now on. It cannot be read back.</>
  ),
  asInToolsDefinition: "as in the tool's definition",
  forPrincipal: 'For principal',
  callerWhoseCallsUseKey:
    'the caller whose calls use it: key:<id>, jwt:<issuer>#<sub>, or * for all callers of the tenant',
  value: 'Value',
  storedEncryptedCannotBeRead: 'stored encrypted; it cannot be read back',
  enterNameValue: 'Enter a name and a value.',
  setSecret2: 'Set secret',
  findToolsAdd: 'Find tools to add',
  searchCatalogSelectTools: 'Search for tools, and select them.',
  more2: (found: ReactNode) => <>And {found} more.</>,
  thisKeyWillSee: (view: ReactNode, view2: ReactNode) => (
    <>
      This key will see {view} {view2}.
    </>
  ),
  add: (scope: ReactNode) => <>Add {scope}</>,
  needsScope: (tool: ReactNode, scope: ReactNode) => (
    <>
      {tool} needs the scope {scope}.{' '}
    </>
  ),
  toolsets2: 'The toolsets',
  noToolsets: 'No toolsets',
  toolsetLimitsKeyOrClient: (toolsets: ReactNode) => (
    <>A toolset limits a key or a client to some tools. Set it in the config, under {toolsets}.</>
  ),
  include: 'Include',
  exclude: 'Exclude',
  highestTier: 'Highest tier',
  none: 'None',
  mcpAddress: 'MCP address',
  whatModelsSee: 'What models see',
  selectedTools: 'Selected tools',
} as const
