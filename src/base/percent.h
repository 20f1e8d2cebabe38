/* Percent-encoding, for URLs that we give out. */
#pragma once

/* `text` with every byte escaped but letters, digits, "-._~" and slashes. The caller frees it. */
char *percent_encode(const char *text);
