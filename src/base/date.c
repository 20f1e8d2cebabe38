#include "base/date.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define NS_PER_SEC UINT64_C(1000000000)
#define YEAR_MAX   2500 /* nanoseconds in 64 bits reach a little further */

static void split(uint64_t ns, struct tm *ret)
{
	time_t seconds = (time_t)(ns / NS_PER_SEC);

	(void)gmtime_r(&seconds, ret);
}

/* `n` digits and what follows them; a date is made ten times for each run, and printf() takes
 * long over it. */
static char *put_number(char *to, unsigned value, int n, char after)
{
	for (int i = n - 1; i >= 0; i--, value /= 10)
		to[i] = (char)('0' + value % 10);
	to[n] = after;
	return to + n + 1;
}

void date_format(uint64_t ns, char ret[DATE_SIZE + 1])
{
	struct tm t;
	char *to = ret;

	split(ns, &t);
	to = put_number(to, (unsigned)(t.tm_year + 1900), 4, '-');
	to = put_number(to, (unsigned)(t.tm_mon + 1), 2, '-');
	to = put_number(to, (unsigned)t.tm_mday, 2, 'T');
	to = put_number(to, (unsigned)t.tm_hour, 2, ':');
	to = put_number(to, (unsigned)t.tm_min, 2, ':');
	to = put_number(to, (unsigned)t.tm_sec, 2, '.');
	to = put_number(to, (unsigned)(ns % NS_PER_SEC / 1000), 6, 'Z');
	*to = '\0';
}

void date_format_day(uint64_t ns, char ret[DATE_DAY_SIZE + 1])
{
	char whole[DATE_SIZE + 1];

	date_format(ns, whole);
	memcpy(ret, whole, DATE_DAY_SIZE);
	ret[DATE_DAY_SIZE] = '\0';
}

/* Exactly `n` digits, at most `max`. */
static bool take_number(const char **p, int n, int max, int *ret)
{
	int v = 0;

	for (int i = 0; i < n; i++, (*p)++) {
		if (**p < '0' || **p > '9')
			return false;
		v = v * 10 + (**p - '0');
	}
	*ret = v;
	return v <= max;
}

static bool take_char(const char **p, const char *any_of)
{
	if (!**p || !strchr(any_of, **p))
		return false;
	(*p)++;
	return true;
}

static bool take_day(const char **p, struct tm *t)
{
	int year;
	int month;
	int day;

	if (!take_number(p, 4, 9999, &year) || !take_char(p, "-") ||
		!take_number(p, 2, 12, &month) || !take_char(p, "-") ||
		!take_number(p, 2, 31, &day))
		return false;
	t->tm_year = year - 1900;
	t->tm_mon = month - 1;
	t->tm_mday = day;
	return year >= 1970 && year <= YEAR_MAX && month >= 1 && day >= 1;
}

static bool take_fraction(const char **p, uint64_t *ret_ns)
{
	uint64_t unit = NS_PER_SEC / 10;
	int digits = 0;

	for (; **p >= '0' && **p <= '9'; (*p)++, digits++, unit /= 10)
		*ret_ns += (uint64_t)(**p - '0') * unit;
	return digits > 0;
}

static bool take_time(const char **p, struct tm *t, uint64_t *ret_ns)
{
	if (!take_number(p, 2, 23, &t->tm_hour) || !take_char(p, ":") ||
		!take_number(p, 2, 59, &t->tm_min))
		return false;
	if (take_char(p, ":")) {
		if (!take_number(p, 2, 60, &t->tm_sec))
			return false;
		if (take_char(p, ".,"))
			return take_fraction(p, ret_ns);
	}
	return true;
}

/* Seconds east of Greenwich. */
static bool take_zone(const char **p, int *ret)
{
	int hours;
	int minutes = 0;
	int sign = **p == '-' ? -1 : 1;

	if (!**p || take_char(p, "Zz"))
		return true;
	if (!take_char(p, "+- ") || !take_number(p, 2, 23, &hours))
		return false;
	(void)take_char(p, ":");
	if (**p && !take_number(p, 2, 59, &minutes))
		return false;
	*ret = sign * (hours * 3600 + minutes * 60);
	return true;
}

static int days_in_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month] + (month == 1 && leap);
}

int date_parse(const char *text, uint64_t *ret_ns)
{
	struct tm t = { 0 };
	uint64_t fraction = 0;
	int zone = 0;
	const char *p = text;

	if (!take_day(&p, &t))
		return -EINVAL;
	if (take_char(&p, "Tt ") && (!take_time(&p, &t, &fraction) || !take_zone(&p, &zone)))
		return -EINVAL;
	if (*p)
		return -EINVAL;
	if (t.tm_mday > days_in_month(t.tm_year + 1900, t.tm_mon))
		return -EINVAL;
	time_t seconds = timegm(&t);
	if (seconds < zone)
		return -EINVAL;
	*ret_ns = (uint64_t)(seconds - zone) * NS_PER_SEC + fraction;
	return 0;
}
